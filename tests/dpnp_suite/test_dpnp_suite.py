"""The command that runs dpnp's tests finds those that are lost, whatever becomes of their process."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from subprocess import CompletedProcess
from textwrap import dedent

import pytest

from tests.dpnp_suite.__main__ import FileReport, Lost, main, run_ways, summary
from tests.dpnp_suite.running import Options, Result
from tests.dpnp_suite.tests_folder import downloaded
from tests.dpnp_suite.topics import Difference

TINY = """
    import os
    from pathlib import Path

    import dpnp
    import pytest


    @pytest.mark.parametrize("function", [dpnp.add, dpnp.multiply])
    def test_right(function):
        assert function(dpnp.asarray([2, 2, 2]), 2).asnumpy().tolist() == [4, 4, 4]


    def test_wrong():
        assert (dpnp.ones(3) + 1 == 3).all()


    def test_skipped():
        pytest.skip("not here")


    def test_knows_the_type():
        assert type(dpnp.ones(3) + 1) is dpnp.ndarray


    def test_ends_the_process():
        if type(dpnp.ones(3) + 1) is not dpnp.ndarray:
            os._exit(3)


    def test_unsteady():
        runs = Path(__file__).with_suffix(".runs")
        runs.touch()
        runs.write_text(runs.read_text() + "x")
        assert runs.read_text() == "x"


    def test_now_and_then():
        runs = Path(__file__).with_suffix(".fused")
        if type(dpnp.ones(3) + 1) is not dpnp.ndarray:
            runs.touch()
            runs.write_text(runs.read_text() + "x")
            assert runs.read_text() != "x"


    class TestMethods:
        def test_after_all(self):
            assert dpnp.dot(dpnp.ones(3), dpnp.ones(3)) == 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tests = tmp_path / "dpnp" / "tests"
    tests.mkdir(parents=True)
    for name in ("__init__.py", "conftest.py"):
        (tests / name).touch()
    (tests / "test_tiny.py").write_text(dedent(TINY))
    return tests


def test_lost_tests_are_found_and_others_go_on(folder: Path) -> None:
    report = run_ways(folder / "test_tiny.py", ("fusing",), Options(folder))
    assert len(report.stock.chosen) == 9
    assert len(report.stock.passed) == 7
    assert report.passed == {"fusing": 3}
    assert {lost.name: lost.text.splitlines()[0] for lost in report.lost} == {
        "test_tiny.py::test_knows_the_type": "failed",
        "test_tiny.py::test_ends_the_process": "the process died: exit status 3",
    }
    assert [one.name for one in report.unsteady] == ["test_tiny.py::test_unsteady", "test_tiny.py::test_now_and_then"]
    assert {name.split()[0] for name in report.kernels} >= {"fused_add", "fused_multiply", "fused_astype_matmul_equal"}


def test_the_report_and_the_exit_status(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["test_tiny.py", "--tests", str(folder), "-k", "right or type", "--kernels", str(tmp_path / "kernels")]
    assert main([*command, *"--way xp --way fuse --way fusing".split()]) == 1
    output = capsys.readouterr().out
    assert "test_tiny.py: 3 of 3 pass in plain dpnp, 3 xp, 3 fuse, 2 fusing, 1 lost; " in output
    assert "lost, fusing: test_tiny.py::test_knows_the_type\n" in output
    assert "\n3 tests pass in plain dpnp; xp: 3, fuse: 3, fusing: 2; " in output
    assert output.endswith("0 lost on purpose, 1 lost\n")
    kernels = [line.split() for line in (tmp_path / "kernels").read_text().splitlines()]
    launches = sum(int(number) for *_, number in kernels)
    assert f"; {len(kernels)} kernels, {launches} launches\n" in output
    assert {name for name, *_ in kernels} == {"fused_add", "fused_astype", "fused_multiply"}
    assert re.search(
        r"\n  fused_add \(\d, \d\)\n  fused_astype \(\d, \d\)\n  fused_multiply \(\d, \d\)\n", output)


def test_tests_that_are_lost_on_purpose(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    meant = Difference("::test_type$", ("fusing",), "a reason")
    monkeypatch.setattr("tests.dpnp_suite.topics.DIFFERENCES", (meant,))
    report = FileReport(Path("test_tiny.py"), Result(), lost=[Lost("test_tiny.py::test_type", "fusing", "")])
    assert summary([report]) == 0
    output = capsys.readouterr().out
    assert "lost on purpose: a reason\n  test_tiny.py::test_type\n" in output
    assert output.endswith("1 lost on purpose, 0 lost\n")
    report.lost.append(Lost("test_tiny.py::test_type", "xp", ""))
    assert summary([report]) == 1
    assert capsys.readouterr().out.endswith("1 lost on purpose, 1 lost\n")


def test_a_module_that_does_not_import_and_a_sample(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "test_later.py").write_text("import dpnp.of_a_later_version")
    (folder / "test_many.py").write_text(dedent("""
        import pytest

        @pytest.mark.parametrize("number", range(50))
        def test_many(number): pass

        def test_one(): pass
    """))
    command = ["test_[lm]*.py", "--tests", str(folder), "--sample", "3", "--seed", "1", "--way", "xp"]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "test_later.py: none runs in plain dpnp: ModuleNotFoundError: No module named 'dpnp.of_a_later" in output
    assert "test_many.py: 3 of 3 pass in plain dpnp, 3 xp; 0 kernels, 0 launches" in output
    report = run_ways(folder / "test_many.py", (), Options(folder, sample=3, seed=1))
    assert "test_many.py::test_one" in report.stock.names.values()  # each function before any function twice
    assert main(["test_many.py", *command[1:], "--minutes", "0"]) == 0
    assert "not all tests were run: the time was over" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="there are no such tests"):
        main(["test_none.py", "--tests", str(folder)])


@pytest.mark.slow
def test_a_test_that_hangs_is_lost(folder: Path) -> None:
    (folder / "test_tiny.py").write_text(dedent("""
        import time

        import dpnp

        def test_hangs():
            if type(dpnp.ones(3) + 1) is not dpnp.ndarray:
                time.sleep(600)
    """))
    report = run_ways(folder / "test_tiny.py", ("fusing",), Options(folder, limit=20))
    (lost,) = report.lost
    assert lost.text.startswith("no end after 20 s\n")
    assert "in test_hangs" in lost.text


def test_the_tests_are_downloaded_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def download(command: list[str]) -> CompletedProcess[bytes]:
        commands.append(command)
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "dpnp.whl", "w") as wheel:
            wheel.writestr("dpnp/tests/test_sum.py", "")
            wheel.writestr("dpnp/other.py", "")
        return CompletedProcess(command, 0)

    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    monkeypatch.setattr("subprocess.run", download)
    first, again = downloaded(), downloaded()
    assert first == again
    assert [path.name for path in first.iterdir()] == ["test_sum.py"]
    assert [path.name for path in first.parent.iterdir()] == ["tests"]
    (command,) = commands
    assert "--require-hashes" in command

    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "elsewhere"))
    monkeypatch.setattr("subprocess.run", lambda command: CompletedProcess(command, 1))
    with pytest.raises(SystemExit, match="name a folder that has them with --tests"):
        downloaded()
    assert list((tmp_path / "elsewhere" / "tests-of-dpnp").iterdir()) == []

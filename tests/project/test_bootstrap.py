"""The start-up hook: dpctl and dpnp import in fresh interpreters, in any order, and nothing is loaded early."""

import json
import os
import subprocess
import sys

import pytest

WITHOUT_HELP = ("LD_LIBRARY_PATH", "OCL_ICD_FILENAMES", "PYTHONPATH")


def run(code, *flags, **environment):
    """Run Python code in a fresh interpreter without the variables that help the loader; return its output."""
    variables = {name: value for name, value in os.environ.items() if name not in WITHOUT_HELP} | environment
    result = subprocess.run([sys.executable, *flags, "-c", code], env=variables, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("order", ["tl_dpnp, dpnp", "dpnp, tl_dpnp", "numba_dpex, tl_dpnp", "dpctl, dpnp, tl_dpnp"])
def test_imports_in_any_order(order):
    code = f"import {order}; import dpnp; print(dpnp.matmul(dpnp.ones((2, 3)), dpnp.ones((3, 2))).sum())"
    assert float(run(code)) == 12


def test_the_finder_is_enough_without_the_path_file():
    code = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'LibraryFinder' not in repr(f)]\n"
        "import tl_dpnp, dpnp; print(int(dpnp.ones(3).sum()))"
    )
    assert int(run(code)) == 3


def test_importing_tl_dpnp_is_light():
    code = "import sys, json, tl_dpnp; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run(code))
    assert not {"numba", "numba_dpex", "dpctl", "dpnp", "llvmlite", "numpy", "lark"} & set(loaded)


def test_the_hook_loads_no_module_at_start():
    before = set(json.loads(run("import sys, json; print(json.dumps(sorted(sys.modules)))", "-S")))
    after = set(json.loads(run("import sys, json; print(json.dumps(sorted(sys.modules)))")))
    assert "_tl_dpnp_startup" in after
    assert not {name for name in after - before if name.startswith("tl_dpnp") or name == "ctypes"}


def test_a_user_choice_of_opencl_runtime_is_kept():
    code = (
        "import os; from tl_dpnp.runtime import bootstrap; print(bootstrap.prepare('dpctl').cpu_runtime);"
        "print(os.environ['OCL_ICD_FILENAMES'])"
    )
    assert run(code, OCL_ICD_FILENAMES="libmine.so").split() == ["None", "libmine.so"]


def test_nothing_is_loaded_where_the_loader_finds_the_libraries():
    code = "from tl_dpnp.runtime import bootstrap; o = bootstrap.prepare('dpctl'); print(o.status, o.folder, sep='|')"
    status, folder = run(code).strip().split("|")
    assert status in ("preloaded", "found without help")
    assert run(code, LD_LIBRARY_PATH=folder).startswith("found without help")


def test_missing_packages_are_no_error(monkeypatch):
    from tl_dpnp.runtime import bootstrap

    monkeypatch.setattr(sys, "path", [])
    libraries = bootstrap.LibrarySet("libnone.so", "none", ("libnone.so",))
    assert bootstrap._prepare("no_such_package_here", libraries).status == "not installed"


def test_a_library_that_does_not_load_is_reported(tmp_path, monkeypatch):
    from tl_dpnp.runtime import bootstrap

    package = tmp_path / "broken_package"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "libprobe.so").write_bytes(b"no library")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libneeded.so").write_bytes(b"no library either")
    monkeypatch.syspath_prepend(str(tmp_path))
    libraries = bootstrap.LibrarySet("libprobe.so", "none", ("libneeded.so",))
    outcome = bootstrap._prepare("broken_package", libraries)
    assert outcome.status == "failed"
    assert {os.path.basename(path) for path in outcome.problems} == {"libprobe.so", "libneeded.so"}
    assert outcome.folder == str(tmp_path / "lib")

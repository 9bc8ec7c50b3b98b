"""The wheel and the sdist, built here without a network: what they contain, and what pip is told of them."""

import csv
import email
import pathlib
import pickle
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tl_dpnp.language import parser, tables
from tl_dpnp.runtime import system_info

# What pyproject.toml asks of a build; pip gets that by itself, in an environment that it makes for the build.
pytest.importorskip("setuptools", minversion="77", reason="a build needs setuptools 77, which '.[dev]' has")

ROOT = pathlib.Path(__file__).parents[2]
NOT_SOURCES = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "*.tables")
BUILD = "import sys, build_backend; print(getattr(build_backend, sys.argv[1])(sys.argv[2]))"


def build(what, source, folder):
    """Have the backend of a source tree build a wheel or an sdist; return its path."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BUILD, f"build_{what}", str(folder)]
    run = subprocess.run(command, cwd=source, env={"PYTHONPATH": str(source / "tools")}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder / run.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of the tree, in which an earlier build left a module that is gone by now."""
    copy = shutil.copytree(ROOT, tmp_path_factory.mktemp("source") / "tl_dpnp", ignore=NOT_SOURCES)
    stale = copy / "build" / "lib" / "tl_dpnp" / "gone.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    return copy


@pytest.fixture(scope="module")
def wheel(source):
    return build("wheel", source, source.parent / "wheels")


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(file.read(name))


def names_in(wheel):
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def test_the_wheel_has_the_package_and_its_data_and_nothing_else(wheel):
    package = [path for path in (ROOT / "tl_dpnp").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    sources = {path.relative_to(ROOT).as_posix() for path in package if path.suffix != ".tables"}
    assert any(name.endswith(".lark") for name in sources)
    info = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    described = {f"{info}/{name}" for name in (
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE", "licenses/NOTICE")}
    tables_of_it = f"tl_dpnp/language/{tables.FILE.name}"
    assert names_in(wheel) == sources | described | {tables_of_it, "tl_dpnp.pth", "_tl_dpnp_startup.py"}


def test_what_is_installed_is_recorded_once(wheel):
    with zipfile.ZipFile(wheel) as file:
        (record,) = [name for name in file.namelist() if name.endswith("/RECORD")]
        rows = [row[0] for row in csv.reader(file.read(record).decode().splitlines())]
        assert sorted(rows) == sorted(file.namelist())
        assert file.testzip() is None


def test_one_wheel_is_for_all_pythons(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")


def test_tables_that_one_python_wrote_are_right_for_all(tmp_path, monkeypatch):
    """A wheel has one file of tables: it names no class of Python's own library, whose versions may differ."""
    monkeypatch.setattr(tables, "FILE", tmp_path / "tensor.tables")
    parser.write_tables()
    modules = set()

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            modules.add(module)
            return super().find_class(module, name)

    with tables.FILE.open("rb") as file:
        file.read(32)
        Reader(file).load()
    assert modules
    assert {module.partition(".")[0] for module in modules} <= {"lark", "tl_dpnp"}


def test_unsuitable_pythons_are_refused_by_the_metadata(metadata):
    """pip looks at this before it fetches any dependency."""
    suitable = SpecifierSet(metadata["Requires-Python"])
    assert [minor for minor in range(20) if Version(f"3.{minor}.1") in suitable] == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("python", ["3.9", "3.15"])
def test_unsuitable_pythons_have_nothing_to_fetch(metadata, python):
    """Versions of pip as old as 23.2 fetch dependencies first where they are given the wheel itself."""
    assert not [each for each in map(Requirement, metadata.get_all("Requires-Dist")) if "extra" not in str(each.marker)
                and (each.marker is None or each.marker.evaluate({"python_version": python}))]


@pytest.mark.parametrize(("python", "host"), [
    ("3.10", "numba-dpex"), ("3.11", "numba-dpex"), ("3.12", "llvmlite"), ("3.13", "llvmlite"), ("3.14", "llvmlite")])
def test_each_python_gets_one_stack(metadata, python, host):
    found = [Requirement(line) for line in metadata.get_all("Requires-Dist")]
    environment = {"python_version": python, "extra": ""}
    taken = [each for each in found if each.marker is None or each.marker.evaluate(environment)]
    names = [each.name.lower().replace("_", "-") for each in taken]
    assert len(names) == len(set(names))
    assert {"click", "lark", "dpnp", "dpctl", "numpy", "intel-opencl-rt", "llvmlite", host} <= set(names)
    assert ("numba-dpex" in names) is (host == "numba-dpex")
    assert not {"pytest", "ruff", "matplotlib"} & set(names)


@pytest.mark.parametrize("python", [(3, 10), (3, 11), (3, 12), (3, 13), (3, 14)])
def test_the_system_report_asks_for_the_packages_of_this_python(metadata, python, monkeypatch):
    found = [Requirement(line) for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    taken = [each.name for each in found if each.marker.evaluate({"python_version": ".".join(map(str, python))})]
    monkeypatch.setattr(system_info.metadata, "requires", lambda name: metadata.get_all("Requires-Dist"))
    monkeypatch.setattr(system_info.sys, "version_info", python)
    assert [package.name for package in system_info._packages()] == taken


@pytest.mark.parametrize(("there", "stack"), [
    ({"dpctl": "0.22.1"}, "3.13"), ({"dpctl": "0.17.0"}, "3.11"), ({"dpctl": "0.22.1", "numba-dpex": "0.23.0"}, "3.11"),
    ({}, "3.11")])
def test_the_system_report_knows_the_current_stack_on_an_older_python(metadata, monkeypatch, there, stack):
    """It is installed by requirements-current.txt; advice to install numba-dpex would break it."""
    found = [Requirement(line) for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    monkeypatch.setattr(system_info.metadata, "requires", lambda name: metadata.get_all("Requires-Dist"))
    monkeypatch.setattr(system_info.sys, "version_info", (3, 11, 7))
    monkeypatch.setattr(system_info, "_version", there.get)
    taken = [each.name for each in found if each.marker.evaluate({"python_version": stack})]
    assert [package.name for package in system_info._packages()] == taken


def test_the_metadata_say_what_the_package_is(metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# tl_dpnp")


def test_a_wheel_built_from_the_sdist_is_the_same(source, wheel, tmp_path):
    archive = build("sdist", source, tmp_path / "sdists")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    for name in ("tests/project/test_wheel.py", "constraints-current.txt", "docs/installing.md", "examples/builder.py"):
        assert (unpacked / name).exists(), name
    assert names_in(build("wheel", unpacked, tmp_path / "wheels")) == names_in(wheel)

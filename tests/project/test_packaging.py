"""The package's metadata agree with one another, the wheel gets its path file, a wrong Python one clear sentence."""

import base64
import csv
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from packaging.requirements import Requirement

from tl_dpnp.language import tables

ROOT = pathlib.Path(__file__).parents[2]
PINNED = re.compile(r'"([\w-]+)==([\d.]+)[;"]')


def build_backend():
    """Import the build backend from its file; it is no part of the package."""
    spec = importlib.util.spec_from_file_location("build_backend", ROOT / "tools" / "build_backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pins_are_those_of_the_constraints():
    pins = set(PINNED.findall((ROOT / "pyproject.toml").read_text()))
    constraints = set(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert len(pins) > 10
    assert pins <= constraints


def test_pip_and_make_ask_for_the_same_python():
    metadata, makefile = ((ROOT / name).read_text() for name in ("pyproject.toml", "Makefile"))
    low, high = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', metadata).groups()
    marked = set(re.findall(r"python_version >= '3\.(\d+)' and python_version < '3\.(\d+)'", metadata))
    (middle,) = {bound for bounds in marked for bound in bounds} - {low, high}
    assert marked == {(low, middle), (middle, high), (low, high)}
    assert f"(3, {low}) <= sys.version_info[:2] < (3, {middle})" in makefile
    assert f"(3, {middle}) <= sys.version_info[:2] < (3, {high})" in makefile


def lines_of(name):
    """Return the requirements in a file for pip."""
    return [Requirement(line) for line in (ROOT / name).read_text().splitlines() if not line.startswith(("#", "-"))]


def current_requirements():
    """Return what the metadata ask for on a Python that numba-dpex has no release for."""
    marked = map(Requirement, re.findall(r'"(.*python_version.*)"', (ROOT / "pyproject.toml").read_text()))
    return [each for each in marked if each.marker.evaluate({"python_version": "3.13"})]


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_current_constraints_are_what_the_current_stack_may_have(python):
    pins = {each.name: str(each.specifier).removeprefix("==") for each in lines_of("constraints-current.txt")
            if each.marker is None or each.marker.evaluate({"python_version": python})}
    current = current_requirements()
    assert {"dpnp", "llvmlite"} <= {each.name for each in current}
    assert not [str(each) for each in current if pins[each.name] not in each.specifier]


def test_the_current_stack_on_an_older_python_is_that_of_the_metadata():
    assert "-c constraints-current.txt\n" in (ROOT / "requirements-current.txt").read_text()
    wanted = {(each.name, each.specifier) for each in current_requirements()}
    assert {(each.name, each.specifier) for each in lines_of("requirements-current.txt")} == wanted


def test_the_wheel_gets_the_path_file(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.writestr("x/__init__.py", "")
        wheel.writestr("x-1.dist-info/RECORD", "x/__init__.py,,\nx-1.dist-info/RECORD,,\n")
    monkeypatch.chdir(ROOT)
    assert build_backend()._add_path_file(str(tmp_path), "x.whl") == "x.whl"
    with zipfile.ZipFile(tmp_path / "x.whl") as wheel:
        content = wheel.read("tl_dpnp.pth")
        rows = {row[0]: row[1:] for row in csv.reader(wheel.read("x-1.dist-info/RECORD").decode().splitlines())}
        assert sorted(wheel.namelist()) == sorted(rows)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert rows["tl_dpnp.pth"] == [f"sha256={digest}", str(len(content))]
    assert content == (ROOT / "tl_dpnp.pth").read_bytes()


def test_the_build_writes_the_tables_of_the_parser(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tables, "FILE", tmp_path / "tensor.tables")
    build_backend()._write_tables()
    assert tables.FILE.stat().st_size > 100_000


def test_the_path_file_survives_a_missing_hook():
    line = (ROOT / "tl_dpnp.pth").read_text()
    assert line.startswith("import ")
    assert line.count("\n") == 1
    exec(line.replace("_tl_dpnp_startup", "_no_such_module_here"), {})


def make_demo(python, environment):
    """Run ``make demo`` with a Python and a folder for its environment."""
    # The tests are themselves run by make, whose variables would reach this one.
    variables = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"}
    command = ["make", "demo", f"PYTHON={python}", f"VENV={environment}"]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_names_a_wrong_python_in_one_sentence(tmp_path):
    python = tmp_path / "python3.9"
    python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1\nexit 1\n')
    python.chmod(0o755)
    result = make_demo(python, tmp_path / "venv")
    assert result.returncode != 0
    assert result.stdout == ""
    assert result.stderr.splitlines()[0] == (
        "this needs Python 3.10 or 3.11 with the venv module (found: Python 3.9.1): "
        "install one, or name it with make PYTHON=/path/to/python3.11"
    )
    assert not (tmp_path / "venv").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_does_not_ignore_a_python_that_the_environment_was_not_made_with(tmp_path):
    binaries = tmp_path / "venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(sys.executable)
    other = tmp_path / "python3.10"
    other.write_text("#!/bin/sh\necho /usr 3.10.0\n")
    other.chmod(0o755)
    result = make_demo(other, tmp_path / "venv")
    assert result.returncode != 0
    assert result.stdout == ""
    assert result.stderr.splitlines()[0] == (
        f"{tmp_path / 'venv'} was made with another Python than {other}: make clean, then again")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_shows_what_it_downloads(tmp_path):
    """A gigabyte comes with the first demo: pip says what it fetches."""
    command = ["make", "--dry-run", "demo", f"VENV={tmp_path / 'venv'}"]
    recipe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (install,) = [line for line in recipe.splitlines() if "-m pip" in line]
    assert "--quiet" not in install


def test_all_places_name_one_version():
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert version is not None
    assert newest is not None
    assert newest[1] == version[1]
    assert f'{{% set version = "{version[1]}" %}}' in (ROOT / "conda" / "meta.yaml").read_text()
    assert f"Version {version[1].rpartition('.')[0]}," in (ROOT / "README.md").read_text()


def test_the_recipe_for_conda_has_the_requirements_of_current_pythons():
    marked = re.findall(r'"(.*python_version.*)"', (ROOT / "pyproject.toml").read_text())
    found = [Requirement(each) for each in marked]
    wanted = {f"{each.name}{','.join(sorted(map(str, each.specifier), reverse=True))}" for each in found
              if each.marker is not None and each.marker.evaluate({"python_version": "3.13", "extra": ""})}
    run = (ROOT / "conda" / "meta.yaml").read_text().partition("  run:\n")[2].partition("\ntest:")[0]
    listed = {line.strip(" -").replace(" ", "") for line in run.splitlines() if line.strip()}
    assert listed == {*wanted, "python>=3.12,<3.15"}

"""Build backend: setuptools, plus one file at the root of the wheel, and the parser's tables in the package.

`tl_dpnp.pth` must lie next to the installed packages, in ordinary and in editable installs alike; setuptools has no
declaration for that.  So each wheel that setuptools made is written again with the file and its RECORD entry added.

What an earlier build left in ``build/lib`` is removed: setuptools would put modules that are no longer there into the
wheel.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
import zipfile
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

PATH_FILE = "tl_dpnp.pth"


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the wheel and add `PATH_FILE`; return the wheel's file name (PEP 517)."""
    shutil.rmtree(os.path.join("build", "lib"), ignore_errors=True)
    _write_tables()
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    return _add_path_file(wheel_directory, name)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the editable wheel and add `PATH_FILE`; return the wheel's file name (PEP 660)."""
    _write_tables()
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return _add_path_file(wheel_directory, name)


def _write_tables() -> None:
    """Write the parser's tables into the package; see `tl_dpnp.language.tables`."""
    sys.path.insert(0, os.getcwd())
    from tl_dpnp.language.parser import write_tables

    write_tables()


def _add_path_file(wheel_directory: str, name: str) -> str:
    path = os.path.join(wheel_directory, name)
    with open(PATH_FILE, "rb") as file:
        content = file.read()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                data += f"{PATH_FILE},sha256={digest},{len(content)}\n".encode()
            new.writestr(entry, data)
        new.writestr(PATH_FILE, content)
    os.replace(path + ".new", path)
    return name

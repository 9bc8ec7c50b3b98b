"""A kernel for a solver in C++: exported, built with the solver by g++, run by OpenCL and compared with NumPy.

The kernel is that of seissol_volume.py.  Python is needed where kernels are exported, and not where they run.  The
program needs a C++ compiler and OpenCL's headers; loader and runtime are those that were installed with dpctl, which
this imports to have them found.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import dpctl
import numpy as np
from seissol_volume import BASIS, CELLS, QUANTITIES, SOURCE

import tl_dpnp

LIBRARIES = Path(sys.prefix, "lib")
#: The oneAPI runtime of 2026 brings OpenCL's headers; Debian has them in opencl-headers.
COMPILER = ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-idirafter", str(Path(sys.prefix, "include"))]


def has_headers():
    """Return whether there is a compiler that finds OpenCL's headers."""
    command = [*COMPILER, "-E", "-x", "c++", "-"]
    return shutil.which("g++") is not None and not subprocess.run(
        command, input="#include <CL/cl.h>", text=True, capture_output=True, check=False).returncode


def build(folder):
    """Export the kernel into a folder and build the program there; return its path."""
    tl_dpnp.compile(SOURCE).export(folder)
    sources = [Path(__file__).with_suffix(".cpp"), folder / "tl_opencl.c", folder / "volume.c"]
    program = folder / "solver"
    subprocess.run([*COMPILER, f"-I{folder}", *sources, "-o", program, f"-L{LIBRARIES}", "-l:libOpenCL.so.1",
                    f"-Wl,-rpath,{LIBRARIES}"],
                   check=True)
    return program


def main():
    """Build the program, give it random cells, and compare what it makes of them with NumPy."""
    if not has_headers():
        sys.exit("a C++ compiler (g++) and OpenCL's headers (CL/cl.h) are needed: apt-get install g++ opencl-headers")
    random = np.random.default_rng(3)
    dofs, result = (random.standard_normal((CELLS, BASIS, QUANTITIES)) for _ in range(2))
    stars = random.standard_normal((3, CELLS, QUANTITIES, QUANTITIES))
    stiffness = random.standard_normal((3, BASIS, BASIS))
    expected = result + sum(stiffness[d] @ (dofs @ stars[d]) for d in range(3))
    arrays = {"I": dofs, "Q": result}
    for d in range(3):
        arrays |= {f"S{d}": stars[d], f"K{d}": stiffness[d]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        for file, array in arrays.items():
            np.swapaxes(array, -2, -1).tofile(folder / file)  # column-major
        environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)}
        subprocess.run([program, folder, str(CELLS)], env=environment, check=True)
        computed = np.swapaxes(np.fromfile(folder / "result").reshape(CELLS, QUANTITIES, BASIS), -2, -1)
    error = np.abs(computed - expected).max() / np.abs(expected).max()
    assert error < 1e-13, f"the result is wrong: relative error {error}"
    print(f"checked {CELLS} cells of a program in C++, on dpctl's {dpctl.SyclDevice('cpu').name}, against NumPy: "
          + (f"largest relative error {error:.1e}" if error else "all bits agree"))


if __name__ == "__main__":
    main()

"""What type checkers see of `compile` and `fuse`."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
#: Code, with what mypy is to say of a line behind it: the type that it reveals, or the code of an error.
PROGRAM = '''
import pathlib
import tl_dpnp
from tl_dpnp.language import FunctionBuilder

reveal_type(tl_dpnp.compile("text"))                                     # Kernel | Module
reveal_type(tl_dpnp.compile(pathlib.Path("k.tl"), debug=True))           # Kernel | Module
reveal_type(tl_dpnp.compile("text", name="f", target="sycl"))            # Kernel
reveal_type(tl_dpnp.compile(pathlib.Path("k.tl"), name="f"))             # Kernel
reveal_type(tl_dpnp.compile(FunctionBuilder("f")))                       # Kernel
reveal_type(tl_dpnp.compile("text", name="f", define={"n": 8}))          # Kernel
tl_dpnp.compile("text")(1.0, a=2)
tl_dpnp.compile(3)                                                       # [call-overload]
tl_dpnp.compile("text", targt="sycl")                                    # [call-overload]

@tl_dpnp.fuse
def f(a: int, b: str = "") -> float: return 1.0
reveal_type(f(1, b="x"))                                                 # float
f("x")                                                                   # [arg-type]
f.clear()
@tl_dpnp.fuse(on_break="warn")
def g(a: int) -> float: return 1.0
reveal_type(g(1))                                                        # float
'''


def test_types(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports",
               f"--cache-dir={tmp_path}", "--no-pretty", "--hide-error-context", "program.py"]
    result = subprocess.run(command, cwd=tmp_path, env={"MYPYPATH": str(ROOT), "PATH": ""}, capture_output=True,
                            text=True, timeout=300)
    said: dict[int, str] = {}
    for number, text in re.findall(r"^program\.py:(\d+): (.*)$", result.stdout, re.MULTILINE):
        found = re.search(r'Revealed type is "(.*)"|(\[[\w-]+\])$', text)
        if found is not None:
            said.setdefault(int(number), re.sub(r"tl_dpnp\.[\w.]+\.", "", found[1] or found[2]))
    lines = enumerate(PROGRAM.split("\n"), 1)
    expected = {number: line.partition("  # ")[2] for number, line in lines if "  # " in line}
    assert said == expected, result.stdout + result.stderr

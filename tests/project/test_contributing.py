"""The examples of the contributor's guide: each is applied to a copy of the package and run."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DIFFS = re.findall(r"^```diff\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)

START = """
import os
import dpnp, numpy as np, tl_dpnp
from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.language import FunctionBuilder, memref, parse, print_module
from tl_dpnp.scalars import F32

rng = np.random.default_rng(0)
A, B = (np.asfortranarray(rng.random((5, 7), np.float32)) for _ in range(2))
a, d, long = (rng.random(size, np.float32) for size in (9, 5, 37))

def check(module, expected, *arrays):
    assert parse(print_module(module)) == module
    host = [array.copy(order="F") for array in arrays]
    tl_dpnp.compile(module, target="reference")(*host)
    np.testing.assert_allclose(host[-1], expected, rtol=1e-6)
    for form in ("vector", "subgroup"):
        os.environ["TL_DPNP_FORM"] = form
        on_device = [dpnp.asarray(array, order="F") for array in arrays]
        tl_dpnp.compile(module)(*on_device)
        np.testing.assert_allclose(dpnp.asnumpy(on_device[-1]), host[-1], rtol=1e-5)
"""
ROWDOT = """
b = FunctionBuilder("f", A=memref(F32, 5, 7), B=memref(F32, 5, None), d=memref(F32, 5))
b.rowdot(2.0, b.A, b.B, -1.0, b.d)
check(b.build(), 2 * (A * B).sum(1) - d, A, B, d)
"""
CUMPROD = """
b = FunctionBuilder("f", a=memref(F32, None), b=memref(F32, 9))
b.cumprod(2.0, b.a, -1.0, b.parameters[1])
with b.for_(0, 3) as i:
    b.cumprod(1.0, b.a, 0.0, b.parameters[1])
module = b.build()
check(module, a.cumprod(), a, a[::-1].copy())
"""
UNLOWERED = """
b = FunctionBuilder("f", a=memref(F32, None), b=memref(F32, 9))
b.cumprod(2.0, b.a, -1.0, b.parameters[1])
module = b.build()
host = [a.copy(), a.copy()]
tl_dpnp.compile(module, target="reference")(*host)
np.testing.assert_allclose(host[1], 2 * a.cumprod() - a, rtol=1e-6)
kernel = tl_dpnp.compile(module)
try:
    kernel(dpnp.asarray(a), dpnp.asarray(a))
except LoweringError as error:
    assert "the instruction cumprod has no lowering" in str(error) and "reference" in str(error), error
else:
    raise AssertionError("it ran")
"""
SCALAR_AND_MEMORY = '''

@dataclass(frozen=True)
class Parity(Spelled):
    """``parity a : type``: whether an odd number of bits is set."""

    spelling = "parity {operand} : {operand.scalar_type}"
    example = "%b = parity %a : i32"
    pure = True

    operand: Operand
    result: Result

    def result_type(self) -> ScalarType:
        return I1

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.from_python(bin(group.index(self.operand)).count("1") % 2, I1),)


@dataclass(frozen=True)
class Clear(Spelled):
    """``clear %m : memref``: all elements become 0."""

    spelling = "clear {target} : {target.memref_type}"
    example = "clear %m : memref<f32x4>"
    collective = True

    target: Memref

    @property
    def writes(self) -> tuple[Value, ...]:
        return (self.target,)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        group.value(self.target)[...] = 0
        return ()
'''
UNKNOWN = """
M = "%m: memref<f32x16>, %n: index"
STORE = "%b = parity %n : index %c = cast %b : i1 -> f32 store %c, %m"
programs = {
    "clear": f"func @f({M}) {{ clear %m : memref<f32x16> }}",
    "parity": f"func @f({M}) {{ {STORE}[0] : memref<f32x16> }}",
    "parity ": f"func @f({M}) {{ foreach %i = 0, 16 {{ {STORE}[%i] : memref<f32x16> }} }}",
}
for name, text in programs.items():
    module = parse(text)
    assert parse(print_module(module)) == module
    host = np.ones(16, np.float32)
    tl_dpnp.compile(module, target="reference")(host, 3)
    assert host[0] == 0 and host[-1] == ("[0]" in text), host
    for form in ("vector", "subgroup"):
        os.environ["TL_DPNP_FORM"] = form
        try:
            tl_dpnp.compile(module)(dpnp.ones(16, dtype="float32"), 3)
        except LoweringError as error:
            assert f"the instruction {name.strip()} has no lowering" in str(error), error
            assert error.diagnostics[0].span.line == 1
        else:
            raise AssertionError(f"{name} ran")
"""
ERFC = """
import math
M = "%m: memref<f32x37>"
REST = "%a = load %m[%i] : memref<f32x37> %b = math.erfc %a : f32 store %b, %m[%i] : memref<f32x37>"
check(parse(f"func @f({M}) {{ foreach %i = 0, 37 {{ {REST} }} }}"), [math.erfc(x) for x in long], long)
check(parse(f"func @f({M}) {{ for %i = 0, 37 {{ {REST} }} }}"), [math.erfc(x) for x in long], long)
"""
NO_BUILTIN = """
kernel = tl_dpnp.compile("func @f(%m: memref<f32>) { %a = math.erfc 8.0 : f32 store %a, %m[] : memref<f32> }")
try:
    kernel(dpnp.zeros((), dtype="float32"))
except UnsupportedError as error:
    assert "math.erfc has no lowering for SPIR-V" in str(error), error
else:
    raise AssertionError("it ran")
"""
PEEL = """
text = '''func @f(%A: memref<f32x5x7>, %B: memref<f32x5x7>, %C: memref<f32x5x5>) {
  gemm.n.t 1.0, %A, %B, 0.0, %C : f32, memref<f32x5x7>, memref<f32x5x7>, f32, memref<f32x5x5>
}'''
names = []
kernel = tl_dpnp.compile(text, schedule={"gemm_0": lambda schedule: names.append(schedule.peel("n", 2))})
C = dpnp.zeros((5, 5), dtype="float32", order="F")
kernel(dpnp.asarray(A, order="F"), dpnp.asarray(B, order="F"), C)
np.testing.assert_allclose(dpnp.asnumpy(C), A @ B.T, rtol=1e-5)
assert names == ["n'"]
"""


AMX = """
text = ("func @f(%A: memref<f16x32x32>, %B: memref<f16x32x32>, %C: memref<f32x32x32>) {{ "
        "gemm.n.n 1.0, %A, %B, 0.0, %C : f32, memref<f16x32x32>, memref<f16x32x32>, f32, memref<f32x32x32> }}")
os.environ["TL_DPNP_AMX"] = "emulate"
kernel = tl_dpnp.compile(text)
A, B = (np.asfortranarray(rng.integers(-4, 5, (32, 32)).astype(np.float16)) for _ in range(2))
C = dpnp.zeros((32, 32), dtype="float32", order="F")
kernel(dpnp.asarray(A, order="F"), dpnp.asarray(B, order="F"), C)
assert (dpnp.asnumpy(C) == A.astype(np.float32) @ B.astype(np.float32)).all()
assert ("amx_f32_f16_f16" in str(kernel.inspect_schedule())) is {expected}, kernel.inspect_schedule()
"""
MAPPING = """
text = "func @f(%m: memref<f32x37>) { foreach %i = 0, 37 { store 2.0, %m[%i] : memref<f32x37> } }"
kernel = tl_dpnp.compile(text, form="unhurried")
m = dpnp.zeros(37, dtype="float32")
kernel(m)
assert (dpnp.asnumpy(m) == 2).all()
assert "unhurried form" in str(kernel.inspect_source()), kernel.inspect_source()
kernel = tl_dpnp.compile(text)
kernel(m)
assert "unhurried" not in str(kernel.inspect_source())
"""


def files_of(diff):
    """Return the text of each file of a diff by the file's name."""
    parts = re.split(r"^--- (?:a/\S+|/dev/null)\n\+\+\+ b/(\S+)\n", diff, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def apply(diff, root):
    """Change the files under `root` as a diff says; a hunk goes where its lines are, wherever that is."""
    for name, hunks in files_of(diff).items():
        path = root / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for hunk in re.split(r"^@@.*@@.*\n", hunks, flags=re.MULTILINE)[1:]:
            lines = hunk.splitlines(keepends=True)
            before, after = ("".join(line[1:] or "\n" for line in lines if line[:1] != other) for other in "+-")
            assert text.count(before) == 1, f"{name} has not the lines that the guide shows:\n{before}"
            text = text.replace(before, after, 1)
        path.write_text(text, encoding="utf-8")


def run(root, diffs, code, scalar=""):
    """Run code with a copy of the package that has the changes of `diffs`, and more instructions that are `scalar`."""
    # With the byte code of what does not change, which has the times of its sources; others may just be writing some.
    shutil.copytree(ROOT / "tl_dpnp", root / "tl_dpnp", ignore=shutil.ignore_patterns("*.pyc.*"))
    for diff in diffs:
        apply(diff, root)
    with (root / "tl_dpnp/language/instructions/scalar.py").open("a", encoding="utf-8") as file:
        file.write(f"\n\nfrom tl_dpnp.language.assembly import Memref\n{scalar}")
    variables = {**os.environ, "PYTHONPATH": str(root), "TL_DPNP_CACHE_DIR": str(root / "cache")}
    done = subprocess.run([sys.executable, "-c", START + code], cwd=root, env=variables, text=True, capture_output=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("place", "code"), [(0, ROWDOT), (1, CUMPROD), (2, ERFC), (3, PEEL), (5, MAPPING)],
                         ids=["contraction", "lowered", "function", "primitive", "mapping"])
def test_the_examples_of_the_guide_run(place, code, tmp_path):
    run(tmp_path, [DIFFS[place]], code)


def reverted(diff):
    """Return the diff that takes a change away again."""
    return re.sub(r"^([+-])(?!--|\+\+)", lambda sign: "-" if sign[1] == "+" else "+", diff, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("is_there", [False, True])
def test_a_row_of_an_engine_is_all_that_it_takes(is_there, tmp_path):
    """The row of the guide is in the package; without it vectors compute the products."""
    back, again = reverted(DIFFS[4]), DIFFS[4]
    run(tmp_path, [back, again] if is_there else [back], AMX.format(expected=is_there))


@pytest.mark.slow
def test_an_instruction_without_a_lowering_is_refused(tmp_path):
    """The half of the example that is the class."""
    (name, hunks), _ = files_of(DIFFS[1]).items()
    assert name.endswith("algebra.py")
    run(tmp_path, [f"--- a/{name}\n+++ b/{name}\n{hunks}"], UNLOWERED)


#: Contractions that the loop nests of linear algebra have no formula for.
BEYOND_LOOPS = {
    "threefold": ("M,M,M->M", "lambda a, b, c: a * b * c"), "frobenius": ("KL,KL->", "lambda a, b: (a * b).sum()"),
    "diagonal": ("MM->M", "lambda a: a.diagonal()"), "batched": ("MNP->MNP", "lambda a: a"),
}
REFUSED = """
for name, shapes in {}.items():
    letters = shapes.replace("->", ",").split(",")
    types = {{f"x{{i}}": memref(F32, *[3] * len(names)) for i, names in enumerate(letters)}}
    b = FunctionBuilder("f", types)
    *inputs, output = b.parameters
    getattr(b, name)(1.0, *inputs, 0.0, output)
    module = b.build()
    host = [np.array(rng.random([3] * len(names)), np.float32, order="F") for names in letters]
    on_device = [dpnp.asarray(array, order="F") for array in host]
    tl_dpnp.compile(module, target="reference")(*host)
    np.testing.assert_allclose(host[-1], np.einsum(shapes, *host[:-1]), rtol=1e-6)
    try:
        tl_dpnp.compile(module)(*on_device)
    except LoweringError as error:
        assert f"the instruction {{name}} has no lowering" in str(error), error
    else:
        raise AssertionError(f"{{name}} ran")
"""


@pytest.mark.slow
def test_a_function_without_a_builtin_is_refused(tmp_path):
    name, hunks = next(iter(files_of(DIFFS[2]).items()))
    assert name.endswith("mathematics.py")
    run(tmp_path, [f"--- a/{name}\n+++ b/{name}\n{hunks}"], NO_BUILTIN)


@pytest.mark.slow
def test_contractions_that_have_no_loops_are_refused(tmp_path):
    """They are not lowered to loops that compute something else."""
    classes = "".join(f'''

@dataclass(frozen=True)
class {name.title()}(Contraction):
    """a contraction"""

    mnemonic = "{name}"
    shapes = ("{shapes}",)
    names = {tuple(f"x{place}" for place in range(shapes.count(",") + 2))}
    product = staticmethod({product})
''' for name, (shapes, product) in BEYOND_LOOPS.items())
    marker = "\n\n# --- the builder"
    text = (ROOT / "tl_dpnp/language/instructions/algebra.py").read_text(encoding="utf-8")
    before = text[:text.index(marker)].splitlines()[-1]
    shown = "".join(f"+{line}\n" for line in classes.splitlines()[1:])
    name = "tl_dpnp/language/instructions/algebra.py"
    diff = f"--- a/{name}\n+++ b/{name}\n@@ @@\n {before}\n{shown}"
    run(tmp_path, [diff], REFUSED.format({name: shapes for name, (shapes, _) in BEYOND_LOOPS.items()}))


@pytest.mark.slow
def test_any_other_instruction_without_a_lowering_is_refused(tmp_path):
    """One of scalars, also in loops that would be vectors, and one that writes memory."""
    run(tmp_path, [], UNKNOWN, SCALAR_AND_MEMORY)


def test_the_guide_counts_files_and_lines():
    """The table of the guide says what its examples have."""
    rows = re.findall(r"^\| (?:a|an) .*? \| (\d): .*? \| ([\d +]+) \|$", GUIDE, re.MULTILINE)
    assert len(rows) == len(DIFFS) == 6
    for (files, lines), diff in zip(rows, DIFFS, strict=True):
        added = [len(re.findall(r"^\+", text, re.MULTILINE)) for text in files_of(diff).values()]
        assert (int(files), list(map(int, lines.split(" + ")))) == (len(added), added)

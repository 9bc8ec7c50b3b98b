"""Every example of the two references, with the corrections of the language documentation: it parses, prints, parses to
the same IR, and has the documented type."""

from __future__ import annotations

import pytest

from tl_dpnp.errors import TLVerifyError
from tl_dpnp.language import parse, print_module
from tl_dpnp.language.ops import Module, Value

#: Instruction on %0 (with index values %1 and %2), type of %0, documented type of the result.
VIEWS = [
    # expand: shape
    ("expand %0[1 -> 2x8]", "memref<f32x32x16x8>", "memref<f32x32x2x8x8>"),
    ("expand %0[1 -> 2x?]", "memref<f32x32x16x8>", "memref<f32x32x2x8x8>"),
    ("expand %0[1 -> ?x8]", "memref<f32x32x16x8>", "memref<f32x32x2x8x8>"),
    ("expand %0[1 -> 2x?]", "memref<f32x32x?x8>", "memref<f32x32x2x?x8>"),
    ("expand %0[1 -> ?x8]", "memref<f32x32x?x8>", "memref<f32x32x?x8x8>"),
    # expand: identifiers
    ("expand %0[1 -> %1 x ?]", "memref<f32x32x?>", "memref<f32x32x?x?>"),
    ("expand %0[1 -> %1 x ?]", "memref<f32x32x16>", "memref<f32x32x?x?>"),
    ("expand %0[1 -> %1 x %2]", "memref<f32x32x?>", "memref<f32x32x?x?>"),
    ("expand %0[1 -> 4 x %1]", "memref<f32x32x?>", "memref<f32x32x4x?>"),
    # expand: stride; the last two are corrected
    ("expand %0[0->4x8]", "memref<f32x32x7,strided<2,64>>", "memref<f32x4x8x7,strided<2,8,64>>"),
    ("expand %0[0->4x?]", "memref<f32x32x7,strided<2,64>>", "memref<f32x4x8x7,strided<2,8,64>>"),
    ("expand %0[0->?x4]", "memref<f32x?x7,strided<2,?>>", "memref<f32x?x4x7,strided<2,?,?>>"),
    ("expand %0[0->4x?]", "memref<f32x?x7,strided<2,?>>", "memref<f32x4x?x7,strided<2,8,?>>"),
    # fuse; in the second, the stride keeps the layout's restriction
    ("fuse %0[1,3]", "memref<f32x32x16x8x4x42>", "memref<f32x32x512x42>"),
    ("fuse %0[1,3]", "memref<f32x32x16x?x4x42,strided<1,32,?,?,?>>", "memref<f32x32x?x42,strided<1,32,?>>"),
    ("fuse %0[1,2]", "memref<f32x32x16x2x2,strided<1,48,768,1536>>", "memref<f32x32x32x2,strided<1,48,1536>>"),
    ("fuse %0[0,1]", "memref<f32x8x?x32,strided<1,?,?>>", "memref<f32x?x32,strided<1,?>>"),
    ("fuse %0[0,1]", "memref<f32x8x16,strided<1,?>>", "memref<f32x128>"),
    # load
    ("load %0[]", "memref<f32>", "f32"),
    ("load %0[5, %1]", "memref<f32x10x?>", "f32"),
    ("load %0[%1]", "group<memref<f32x42>>", "memref<f32x42>"),
    ("load %0[%1]", "group<memref<f32x42>, offset: ?>", "memref<f32x42>"),
    # size
    ("size %0[0]", "memref<f32x?>", "index"),
    # subview: invariant stride
    ("subview %0[4:8,8:4]", "memref<f32x32x16>", "memref<f32x8x4,strided<1,32>>"),
    # subview: rank reduction
    # the reference prints two strides for this vector: memref<f32x4,strided<1,16>>
    ("subview %0[2:4, %1]", "memref<f32x16x8>", "memref<f32x4,strided<1>>"),
    ("subview %0[2:4, %1:1]", "memref<f64x16x8>", "memref<f64x4x1,strided<1,16>>"),
    # subview: size of the output mode
    ("subview %0[%1:4]", "memref<f32x16>", "memref<f32x4>"),
    ("subview %0[%2:%2]", "memref<f32x16>", "memref<f32x?>"),
    ("subview %0[2:4, %2:%2, 6:7]", "memref<f32x16x42x13>", "memref<f32x4x?x7,strided<1,16,672>>"),
    ("subview %0[2:4, %2:%2, 6:7]", "memref<f32x16x42x13,strided<1,?,?>>", "memref<f32x4x?x7,strided<1,?,?>>"),
    # subview: dynamic size; the third is corrected
    ("subview %0[:]", "memref<f32x16>", "memref<f32x16>"),
    ("subview %0[:]", "memref<f32x?>", "memref<f32x?>"),
    ("subview %0[5:?]", "memref<f32x16>", "memref<f32x11>"),
    ("subview %0[%2:?]", "memref<f32x16>", "memref<f32x?>"),
]

FUSED_KERNEL = """\
    func @fused_kernel(%alpha: f32,
                         %A: group<memref<f32x16x8>>,
                         %B: memref<f32x8x8>,
                         %C: memref<f32x8x16>,
                         %D: memref<f32x16x16x?>) {
      %0 = group_id
      %1 = load %A[%0]        : group<memref<f32x16x8>> ; Returns memref<f32x16x8>
      %2 = subview %D[:,:,%0] : memref<f32x16x16x?>     ; Returns memref<f32x16x16>
      %tmp0 = alloca -> memref<f32x16x8>
      gemm.n.t 1.0, %1, %B, 0.0, %tmp0
         : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
      gemm.n.n %alpha, %tmp0, %C, 1.0, %2
         : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
    }
"""

IF = """
func @if(%0: i32) {
  %1 = cmp.lt %0, 16 : i32
  %x = if %1 -> (i32) {
      yield %0 : i32
  } else {
      yield 16 : i32
  }
}
"""


def result(module: Module) -> Value:
    """Return the result of the last operation of the first function."""
    (value,) = module.functions[0].body.operations[-1].results
    return value


def type_named(text: str) -> object:
    """Return the type that the text denotes."""
    return parse(f"func @type(%a: {text}) {{}}").functions[0].parameters[0].type


@pytest.mark.parametrize(("instruction", "operand", "documented"), VIEWS)
def test_view(instruction: str, operand: str, documented: str) -> None:
    module = parse(f"func @f(%0: {operand}, %1: index, %2: index) {{ %r = {instruction} : {operand} }}")
    assert result(module).type == type_named(documented)
    assert parse(print_module(module)) == module
    assert parse(f"func @f(%0: {operand}, %1: index, %2: index) {{ %r = {instruction} : {documented} }}") == module


@pytest.mark.parametrize("text", [FUSED_KERNEL, IF], ids=["fused_kernel", "if"])
def test_program(text: str) -> None:
    module = parse(text)
    assert parse(print_module(module)) == module


def test_types_in_the_sample() -> None:
    operations = parse(FUSED_KERNEL).functions[0].body.operations
    types = [str(value.type) for operation in operations for value in operation.results]
    assert types == ["index", "memref<f32x16x8>", "memref<f32x16x16>", "memref<f32x16x8>"]


def test_same_type_with_and_without_layout() -> None:
    assert type_named("memref<f32x5x6x7>") == type_named("memref<f32x5x6x7,strided<1,5,30>>")


@pytest.mark.parametrize(
    ("instruction", "operand", "message"),
    [
        ("fuse %0[0,1]", "memref<f32x8x16,strided<1,10>>", "modes 0 and 1 cannot be fused"),
        ("fuse %0[1,3]", "memref<f32x32x16x?x4x42,strided<1,16,?,?,?>>", "the stride 16 of mode 1 is below 32"),
    ],
)
def test_illegal_example(instruction: str, operand: str, message: str) -> None:
    with pytest.raises(TLVerifyError, match=message):
        parse(f"func @f(%0: {operand}) {{ %r = {instruction} : {operand} }}")

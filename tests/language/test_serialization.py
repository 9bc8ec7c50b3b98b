"""The IR survives JSON, spans included."""

import json

import pytest

from tl_dpnp.language import parse
from tl_dpnp.language.serialization import from_data, to_data

PROGRAM = """
func @everything(%n: i64, %a: f64, %z: c64, %A: group<memref<f64x8x?>, offset: ?>, %B: memref<f64x8x?,strided<1,?>>)
    work_group_size(16, 2) subgroup_size(16) {
  %g = group_id
  %m = load %A[%g] : group<memref<f64x8x?>, offset: ?>
  %s = subview %m[2:4, 0] : memref<f64x8x?>
  %t = alloca -> memref<f64x4>
  axpby.n inf, %s, 0.0, %t : f64, memref<f64x4>, f64, memref<f64x4>
  %e = expand %t[0 -> 2x?] : memref<f64x4>
  %p = arith.mul %z, [0.5, -0.0] : c64
  %c = cmp.lt %n, 9223372036854775807 : i64
  %x = if %c -> (f64) { yield 0x1.8p-3 : f64 } else { %y = math.exp %a : f64 yield %y : f64 }
  for %i = 0, %n, 2 : i64 { barrier }
  foreach %i = 0, 4 { store %x, %t[%i] : memref<f64x4> }
  lifetime_stop %t
}
func @second(%f: i1, %G: group<memref<f32x4> x 3>) {
  %x = for %i = 0, 4 init(%x=%f) -> (bool) { yield (%x) }
}
"""


def with_spans(node):
    """Return everything that equality leaves out as well."""
    return json.dumps(to_data(node))


def test_a_module_comes_back_whole():
    module = parse(PROGRAM, "everything.tl")
    again = from_data(json.loads(json.dumps(to_data(module))))
    assert again == module
    assert with_spans(again) == with_spans(module)
    assert "everything.tl" in with_spans(again)


@pytest.mark.parametrize("data", [None, [], ["Module"], ["Span", "f", 1, 1, 1, 1], ["nothing", 1], ["Module", [{}]]])
def test_other_data_is_refused(data):
    with pytest.raises(ValueError, match="no module of the IR"):
        from_data(data)

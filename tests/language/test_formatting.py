"""Formatting: the printer's layout, for any text, with the same meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.support import FUSED, RAGGED
from tl_dpnp.errors import TLSyntaxError
from tl_dpnp.language import parse
from tl_dpnp.language.formatting import _LEXEME, formatted
from tl_dpnp.language.printer import print_module

TEXT = """
func @f(%A: memref<f32x16x8x?,strided<1,16,128>>, %G: group<memref<f32x4x4> x 5, offset: 3>, %n: index, %v: f32,
        %C: memref<f32x4x4>, %D: memref<c32x4x4>) attributes{subgroup_size=16, work_group_size=[16, 1]} {
  %c0 = constant 0 : index
  %g = group_id.x : index
  %a = subview %A[:, 0:8, %g] : memref<f32x16x8,strided<1,16>>
  %t = alloca : memref<f32x4x4,local>
  %e = expand %C[0 -> 2 x 2] : memref<f32x2x2x4>
  %r, %s = for %i = %c0, %n init(%x=%v, %y=%n) -> (f32, index) {
    yield (%x, %y)
  }
  %b = less_than %g, %n : bool
  if %b {
    barrier
  } else {
    foreach (%i, %j) = (%c0, %c0), (%n, %n) {
      %w = load %C[%i, %j] : f32
      store %w, %t[%i, %j]
    }
  }
  axpby.n [1.0, 0.0], %D, [0.0, 0.0], %D : c32, memref<c32x4x4>, c32, memref<c32x4x4>
}
"""


def test_what_the_printer_writes_stays():
    for program, dialect in ((TEXT, "0.4"), (FUSED, "0.4"), (FUSED, "0.3"), (RAGGED, "0.3")):
        text = print_module(parse(program), dialect)
        assert formatted(text) == text
    assert formatted(TEXT) == TEXT.lstrip()


@given(st.data())
def test_spaces_and_comments_anywhere_change_nothing(data):
    lexemes = [match[0] for match in _LEXEME.finditer(TEXT) if match.lastgroup is None]
    messy = ""
    for match in _LEXEME.finditer(TEXT):
        if match.lastgroup == "space" and data.draw(st.booleans()):
            messy += data.draw(st.sampled_from(["  ", "\t", " \n ", " ; a comment\n"]))
        elif match.lastgroup is None and match[0] in "(){}[]<>,=:" and data.draw(st.booleans()):
            messy += " " + match[0] + " "
        else:
            messy += match[0]
    result = formatted(messy)
    assert parse(result) == parse(TEXT)
    assert formatted(result) == result
    assert result.count("; a comment\n") == messy.count("; a comment\n")
    assert [match[0] for match in _LEXEME.finditer(result) if match.lastgroup is None] == lexemes


def test_errors_are_those_of_the_parser():
    with pytest.raises(TLSyntaxError, match=r"a\.tl:1:10"):
        formatted("func @f( {\n", "a.tl")

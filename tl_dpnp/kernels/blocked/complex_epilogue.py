"""How threads store sums of complex numbers, whose real and imaginary parts are in registers of their own."""

from __future__ import annotations

from tl_dpnp.kernels.blocked.epilogue import Epilogue, Unit
from tl_dpnp.records import dataclass

__all__ = ["ComplexEpilogue"]

#: The operands of the assembly that are alpha and beta: real and imaginary parts.
_ALPHA, _BETA = ("$5", "$20"), ("$6", "$21")


@dataclass(frozen=True)
class ComplexEpilogue(Epilogue):
    """See `Epilogue`; `sum` is the type of a part.  With `real_factors` alpha and beta have no imaginary parts."""

    real_factors: bool = True

    @property
    def _size(self) -> int:
        return 16 if self.sum == "f64" else 8

    @property
    def _element(self) -> int:
        return self._size

    def _words(self, number: int) -> tuple[str, ...]:
        return f"d{2 * number}", f"d{2 * number + 1}"

    def _loads(self, first: int, unit: Unit, in_pairs: bool) -> list[str]:
        (row, place), = self._parts(unit)
        return [f"{self._row(row)} @q ld.global.v2.{self.sum} {{old{first}, old{first + 1}}}, {place};"]

    def _reads(self, first: int, unit: Unit, in_pairs: bool) -> list[str]:
        return [f"ld.shared.v2.{self.sum} {{s{first}, s{first + 1}}}, [from+{unit.source}];"]

    def _stores(self, number: int, old: int, unit: Unit, in_pairs: bool) -> list[str]:
        (row, place), = self._parts(unit)
        sums, olds = ((f"{name}{first}", f"{name}{first + 1}") for name, first in (("s", number), ("old", old)))
        lines = [self._row(row), *self._product(sums, _ALPHA)]
        if self.old:
            lines += self._product(olds, _BETA, "@keep ", is_added=True)
        return [*lines, f"@q st.global.v2.{self.sum} {place}, {{v, u}};"]

    def _product(
        self, number: tuple[str, str], factor: tuple[str, str], condition: str = "", is_added: bool = False
    ) -> list[str]:
        """Set v + i u to a number times a factor, or add that to it."""
        (real, imaginary), kind = number, self.sum
        lines = [f"{condition}fma.rn.{kind} v, {real}, {factor[0]}, v; "
                 f"{condition}fma.rn.{kind} u, {imaginary}, {factor[0]}, u;" if is_added else
                 f"mul.rn.{kind} v, {real}, {factor[0]}; mul.rn.{kind} u, {imaginary}, {factor[0]};"]
        if not self.real_factors:
            lines.append(f"neg.{kind} o, {imaginary}; {condition}fma.rn.{kind} v, o, {factor[1]}, v; "
                         f"{condition}fma.rn.{kind} u, {real}, {factor[1]}, u;")
        return lines

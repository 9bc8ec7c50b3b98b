"""Random linear-algebra instructions and temporaries that they fill."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.strategies.abstract import Magnitude, Ref, Retry, Root, Scalar, magnitude_of, rounding
from tests.strategies.memory import Memory, Sizes
from tl_dpnp.language import ops
from tl_dpnp.scalars import C64, ScalarType

#: Instruction → the modes of each input and of the output, by letter; an input in capitals may be transposed.
SHAPES: dict[type[ops.LinearAlgebra], list[tuple[tuple[str, ...], str]]] = {
    kind: [
        (tuple(letters if place < kind.transposable and len(letters) == 2 else letters.lower()
               for place, letters in enumerate(inputs.split(","))), output.lower())
        for inputs, output in (shapes.split("->") for shapes in kind.shapes)
    ]
    for kind in ops.INSTRUCTIONS if issubclass(kind, ops.LinearAlgebra)
}


class Algebra(Memory):
    """Writes linear algebra."""

    accumulators: list[Ref]

    def linear_algebra(self, temporary: bool = False) -> None:
        """Emit one instruction into a visible memref, an accumulator of all work-groups, or a new temporary."""
        instruction = self.pick([ops.Gemm, *(kind for kind in SHAPES if self.features.newer or not kind.is_newer)])
        inputs, output = self.pick(SHAPES[instruction])
        if temporary:
            sizes = {letter: self.uniform_sizes() for letter in output}
            element = self.pick(self.algebra_types())
            target = self.allocate(element, [sizes[letter][0] for letter in output])
        else:
            target = self._target(len(output))
            element = target.root.element
            sizes = {letter: target.sizes(mode) for mode, letter in enumerate(output)}
        summed = sorted({letter for letters in inputs for letter in letters.lower()} - set(output))
        sizes |= {letter: self._inner_sizes() for letter in summed}
        shared = any(target is accumulator for accumulator in self.accumulators)
        transposes, operands = [], []
        for position, letters in enumerate(inputs):
            transposable = position < instruction.transposable
            transpose = transposable and self.chance(0.5)
            wanted = [sizes[letter] for letter in letters.lower()]
            operands.append(self.operand(wanted[::-1] if transpose and len(wanted) == 2 else wanted, target))
            transposes += [transpose] * transposable
        alpha, beta = self.coefficient(element), self._beta(element, temporary, shared)
        mode = {"mode": self.rng.randrange(len(output))} if instruction.has_mode else {}
        terms = math.prod(max(sizes[letter]) for letter in (*summed, *(output[place] for place in mode.values())))
        self._record(target.root, alpha, beta, operands, terms, self.groups if shared else 1)
        atomic = shared or (element in self.features.atomic_types and self.chance(0.1))
        if not shared and element == C64 and beta.type.is_complex and (
            isinstance(beta.operand, ops.Value) or beta.operand.value.imag
        ):
            atomic = False  # an update of both parts at once has 128 bits
        self.emit(instruction(
            alpha=alpha.operand, inputs=tuple(ref.value for ref in operands), beta=beta.operand, output=target.value,
            transposes=tuple(transposes), atomic=atomic, **mode,
        ))
        if temporary:
            self.publish(target)

    def accumulate(self) -> None:
        """Emit an atomic addition to an accumulator of all work-groups; what was there depends on their order."""
        ref = self.pick(self.accumulators)
        value = self.expression(ref.root.element)
        ref.root.write(value.magnitude, self.frame.times * self.groups)
        self.emit(self.update(ops.AtomicAdd, value, ref, self.indices(ref), ops.Value(self.name(), ref.root.element)))

    def algebra_types(self) -> list[ScalarType]:
        return [t for t in self.features.types if not t.is_boolean]

    def uniform_sizes(self) -> Sizes:
        """Return a size that is the same in every work-group; defined with the program."""
        raise NotImplementedError

    def _target(self, order: int) -> Ref:
        if self.accumulators and self.chance(0.15):
            return self.pick([a for a in self.accumulators if a.order == order])
        candidates = [r for r in self.frame.refs if r.root.writable and not r.root.element.is_boolean]
        exact = [r for r in candidates if r.order == order]
        if exact and self.chance(0.8):
            return self.pick(exact)
        ref = self.pick([r for r in candidates if r.order >= order])
        wanted = [ref.sizes(mode) for mode in sorted(self.rng.sample(range(ref.order), order))]
        return self.fitted(ref, wanted)

    def _inner_sizes(self) -> Sizes:
        modes = [r.sizes(mode) for r in self.frame.refs for mode in range(r.order)]
        return self.pick(modes) if modes and self.chance(0.8) else self.uniform_sizes()

    def operand(self, wanted: Sequence[Sizes], target: Ref) -> Ref:
        """Return a readable memref of the wanted sizes that converts to the target's element type."""
        element = target.root.element
        candidates = self.shuffled([
            r for r in self.frame.refs
            if r.root is not target.root and self.may_read(r.root) and r.order >= len(wanted)
            and not r.root.element.is_boolean and self.converts(r.root.element, element)
        ])
        candidates.sort(key=lambda r: [r.sizes(m) for m in range(r.order)] != list(wanted))
        attempts = [lambda r=r: self.fitted(r, wanted) for r in candidates[:6]]
        if all(len(set(sizes)) == 1 and sizes[0] > 0 for sizes in wanted):
            source = self.pick([t for t in self.algebra_types() if self.converts(t, element)])
            attempts.append(lambda: self.filled(source, [sizes[0] for sizes in wanted]))
        return self.first(attempts)

    def filled(self, element: ScalarType, shape: Sequence[int]) -> Ref:
        """Emit a temporary that a foreach fills; defined with the control flow."""
        raise NotImplementedError

    def coefficient(self, element: ScalarType) -> Scalar:
        """Return an alpha or beta: a constant or a value of a type that converts to `element`."""
        scalar_type = self.pick([t for t in self.algebra_types() if self.converts(t, element)])
        bounded = element.is_integer or scalar_type.mantissa  # nothing is known of an integer's magnitude
        values = [s for s in self.frame.scalars if bounded and s.type == scalar_type and s.magnitude.bound <= 8]
        if values and self.chance(0.4):
            return self.pick(values)
        if scalar_type.is_complex and self.chance(0.5):
            constant = ops.Constant(self.pick([1j, 1 - 1j, -2 + 1j]), scalar_type)
            return Scalar(constant, magnitude_of(constant))
        return self.number(scalar_type, self.pick([1, 1, 1, 2, -1 if scalar_type.kind != "unsigned" else 3, 0]))

    def number(self, scalar_type: ScalarType, value: int) -> Scalar:
        """Return a constant of any type but i1."""
        number = {"float": float, "complex": complex}.get(scalar_type.kind, int)(value)
        constant = ops.Constant(number, scalar_type)
        return Scalar(constant, magnitude_of(constant))

    def _beta(self, element: ScalarType, temporary: bool, shared: bool) -> Scalar:
        scalar_type = self.pick([t for t in self.algebra_types() if self.converts(t, element)])
        if temporary:
            return self.number(scalar_type, 0)
        if shared:  # any other beta would make the result depend on the order of the work-groups
            return self.number(scalar_type, 1)
        if self.chance(0.6):
            return self.number(scalar_type, self.pick([0, 1]))
        return self.coefficient(element)

    def _record(self, root: Root, alpha: Scalar, beta: Scalar, operands: Sequence[Ref], terms: int,
                writers: int) -> None:
        """Take the instruction's effect on the values of `root` into account, or raise `Retry`."""
        if root.is_exact:
            root.write(Magnitude())
            return
        value = alpha.magnitude
        for ref in operands:
            value = value * self._magnitude(ref)
        value = value.scaled(2.0 ** (len(operands) * root.element.is_complex) * max(terms, 1))
        if not value.whole:
            value = Magnitude(value.bound, value.error + (terms + 4) * rounding(root.element) * value.bound, False)
        keep = beta.magnitude.bound
        if not beta.magnitude.whole:
            raise Retry
        if not isinstance(beta.operand, ops.Constant):
            keep = max(keep, 1.0)
        root.write(value, self.frame.times * writers, keep)

    def _magnitude(self, ref: Ref) -> Magnitude:
        if ref.root.element.is_integer:
            return Magnitude(2.0 ** ref.root.element.bits)
        return ref.root.read()

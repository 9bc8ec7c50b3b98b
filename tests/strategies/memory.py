"""Random memory operations: loads, stores, temporaries, views of views.

The result types of views are derived here from the reference's rules, apart from the package, so that a program that
makes the round trip through text has had its types derived twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.strategies.abstract import Interval, Magnitude, Ref, Retry, Root, Scalar
from tests.strategies.expressions import Expressions
from tl_dpnp.language import ops
from tl_dpnp.language.assembly import SEMANTICS
from tl_dpnp.language.types import MemrefType, Size
from tl_dpnp.scalars import INDEX, ScalarType

#: A mode's size in each work-group.
Sizes = tuple[int, ...]
LOCAL_BYTES = 16 * 1024


def product(sizes: Sequence[Size]) -> Size:
    """Return the product, unknown where one factor is."""
    return None if None in sizes else math.prod(sizes)


class Memory(Expressions):
    """Writes operations on memrefs."""

    # --- elements ---

    def may_read(self, root: Root) -> bool:
        """Whether the current place may read the memory, apart from what its own foreach iteration wrote."""
        return root.readable and all(written.ref.root is not root for written in self.frame.written)

    def load_element(self, scalar_type: ScalarType) -> Scalar:
        if not (self.frame.in_foreach or self.features.replicated_memory):
            raise Retry
        own = [w for w in self.frame.written if w.ref.root.element == scalar_type and w.ref.root.readable]
        if own and self.chance(0.3):
            fixed = self.pick(own)
            ref = fixed.ref
            indices = self.indices(ref, fixed.mode, fixed.index)
        else:
            ref = self.pick([r for r in self.frame.refs if r.root.element == scalar_type and self.may_read(r.root)])
            indices = self.indices(ref)
        return self.element(ref, indices)

    def element(self, ref: Ref, indices: Sequence[Scalar]) -> Scalar:
        """Emit the load of one element."""
        operands = tuple(index.operand for index in indices)
        if self.features.newer and not ref.root.element.is_boolean and self.chance(0.1):
            modifiers = self.modifiers(ops.AtomicLoad)
            return self.scalar(lambda r: ops.AtomicLoad(memref=ref.value, indices=operands, result=r, **modifiers),
                               ref.root.element, ref.root.read())
        return self.scalar(lambda r: ops.Load(source=ref.value, indices=operands, result=r), ref.root.element,
                           ref.root.read())

    def modifiers(self, kind: type[ops.AtomicAccess]) -> dict[str, str]:
        """Return a scope and semantics that an atomic access may have."""
        if self.chance(0.5):
            return {}
        return {"scope": self.pick(["work_group", "device"]),
                "semantics": self.pick([word for word in SEMANTICS if word not in kind.unfit])}

    def indices(self, ref: Ref, fixed_mode: int | None = None, fixed: Scalar | None = None) -> list[Scalar]:
        """Return indices inside the memref; `fixed` for the mode `fixed_mode`."""
        return [
            fixed if mode == fixed_mode and fixed is not None else self.index_for(ref.sizes(mode))
            for mode in range(ref.order)
        ]

    def store(self, value: Scalar, ref: Ref, indices: Sequence[Scalar]) -> None:
        ref.root.write(value.magnitude)
        operands = tuple(i.operand for i in indices)
        if self.features.newer and not ref.root.element.is_boolean and self.chance(0.1):
            modifiers = self.modifiers(ops.AtomicStore)
            self.emit(ops.AtomicStore(value=value.operand, memref=ref.value, indices=operands, **modifiers))
        else:
            self.emit(ops.Store(value=value.operand, target=ref.value, indices=operands))

    def replicated_store(self) -> None:
        """Store one value from outside foreach: every work-item writes the same."""
        ref = self.pick([r for r in self.frame.refs if r.root.writable])
        self.store_or_update(self.expression(ref.root.element), ref, self.indices(ref))

    def store_or_update(self, value: Scalar, ref: Ref, indices: Sequence[Scalar]) -> None:
        """Store to an element, or update it atomically and make what was there visible."""
        element = ref.root.element
        if not (self.features.newer and ref.root.readable and not element.is_boolean and self.chance(0.25)):
            self.store(value, ref, indices)
            return
        kind = self.pick([ops.AtomicAdd] + [ops.AtomicMin, ops.AtomicMax] * (not element.is_complex))
        before = ref.root.read()
        ref.root.write(value.magnitude, self.frame.times)
        self.scalar(lambda r: self.update(kind, value, ref, indices, r), element, before)

    def update(self, kind: type[ops.AtomicUpdate], value: Scalar, ref: Ref, indices: Sequence[Scalar],
               result: ops.Value) -> ops.AtomicUpdate:
        operands = tuple(index.operand for index in indices)
        return kind(value=value.operand, memref=ref.value, indices=operands, result=result, **self.modifiers(kind))

    # --- temporaries ---

    def allocate(self, element: ScalarType, shape: Sequence[int]) -> Ref:
        """Emit an alloca, packed or padded; the caller writes all of it before anything reads it."""
        if 0 in shape:  # as an argument may be
            raise Retry
        strides, stride = [], 1
        for size in shape:
            strides.append(stride)
            stride = stride * size + (self.rng.randint(1, 3) if self.chance(0.15) else 0)
        self.local_bytes += stride * element.bytes
        if self.local_bytes > LOCAL_BYTES:
            raise Retry
        value = ops.Value(self.name(), MemrefType(element, tuple(shape), tuple(strides)))
        root = Root(element, True, Magnitude())
        self.emit(ops.Alloca(result=value))
        return Ref(value, root, (tuple(shape),) * self.groups, (tuple(strides),) * self.groups)

    def publish(self, ref: Ref) -> None:
        """Make an initialised temporary visible."""
        self.roots.append(ref.root)
        self.frame.refs.append(ref)

    # --- sizes ---

    def size_of(self, ref: Ref, mode: int) -> Scalar:
        sizes = ref.sizes(mode)
        return self.scalar(lambda r: ops.SizeOf(source=ref.value, mode=mode, result=r), INDEX,
                           interval=Interval(sizes, sizes))

    def size_operand(self, ref: Ref, mode: int) -> Scalar:
        """Return the size of a mode as an operand: a constant where all work-groups agree, sometimes ``size``."""
        sizes = ref.sizes(mode)
        if len(set(sizes)) == 1 and self.chance(0.7):
            return self.constant_index(sizes[0])
        return self.size_of(ref, mode)

    # --- views ---

    def view(self) -> Ref:
        """Emit a random view of a visible memref."""
        ref = self.pick([r for r in self.frame.refs if r.order > 0])
        if any(written.ref.root is ref.root for written in self.frame.written):
            raise Retry  # inside foreach the written memory is reached through one view only
        attempts = [self.random_subview, self.random_expand, self.random_fuse, self.random_subview]
        result = self.first([lambda a=attempt: a(ref) for attempt in self.shuffled(attempts)])
        self.frame.refs.append(result)
        return result

    def subview(self, ref: Ref, slices: Sequence[ops.Slice], shapes: Sequence[Sizes]) -> Ref:
        """Emit a subview whose actual shapes are known."""
        kept = [mode for mode, entry in enumerate(slices) if not entry.is_index]
        shape = []
        for mode in kept:
            match slices[mode]:
                case ops.Slice(size=ops.Constant(value=size)):
                    shape.append(size)
                case ops.Slice(offset=ops.Constant(value=offset), size=None) if ref.type.shape[mode] is not None:
                    shape.append(ref.type.shape[mode] - offset)
                case _:
                    shape.append(None)
        strides = tuple(ref.type.strides[mode] for mode in kept)
        result = ops.Value(self.name(), MemrefType(ref.type.element, tuple(shape), strides))
        self.emit(ops.Subview(source=ref.value, slices=tuple(slices), result=result))
        actual_strides = tuple(tuple(s[mode] for mode in kept) for s in ref.strides)
        return Ref(result, ref.root, tuple(shapes), actual_strides)

    def random_subview(self, ref: Ref) -> Ref:
        slices, columns = [], []
        for mode in range(ref.order):
            sizes = ref.sizes(mode)
            choice = self.rng.random()
            if choice < 0.35 or min(sizes) == 0:
                slices.append(ops.Slice(ops.Constant(0, INDEX)))
                columns.append(sizes)
            elif choice < 0.6:
                slices.append(ops.Slice(self.index_for(sizes).operand, is_index=True))
            elif choice < 0.75:
                offset = self.rng.randrange(min(sizes))
                slices.append(ops.Slice(ops.Constant(offset, INDEX)))
                columns.append(tuple(size - offset for size in sizes))
            else:
                length = self.rng.randint(1, min(sizes))
                slices.append(self.slice_of(sizes, (length,) * self.groups, None))
                columns.append((length,) * self.groups)
        return self.subview(ref, slices, self._rows(columns))

    def slice_of(self, sizes: Sizes, lengths: Sizes, length: Scalar | None) -> ops.Slice:
        """Return a slice of `lengths` elements, of which `length` is the operand, at a random offset that fits."""
        if length is None:
            length = self.constant_index(lengths[0])
            if self.chance(0.2):  # through a value: a dynamic mode
                one, rest = self.constant_index(1), self.constant_index(lengths[0] - 1)
                length = self.scalar(lambda r: ops.Arith(kind="add", lhs=one.operand, rhs=rest.operand, result=r),
                                     INDEX, interval=Interval(lengths, lengths))
        room = tuple(size - wanted + 1 for size, wanted in zip(sizes, lengths, strict=True))
        return ops.Slice(self.index_for(room).operand, length.operand)

    def _rows(self, columns: Sequence[Sizes]) -> list[tuple[int, ...]]:
        """Return the shape in each work-group from the sizes of each mode."""
        return [tuple(column[group] for column in columns) for group in range(self.groups)]

    def random_expand(self, ref: Ref) -> Ref:
        if ref.order >= 4:
            raise Retry
        mode = self.rng.randrange(ref.order)
        sizes = ref.sizes(mode)
        common = math.gcd(*sizes)
        if common == 0:
            raise Retry
        factor = self.pick([n for n in range(1, common + 1) if common % n == 0])
        factors = [factor]
        if self.chance(0.3):
            other = self.pick([n for n in range(1, common // factor + 1) if (common // factor) % n == 0])
            factors.append(other)
        uniform = len(set(sizes)) == 1
        rest = tuple(size // math.prod(factors) for size in sizes)
        place = self.rng.randint(0, len(factors))
        entries: list[ops.Constant | ops.Value | None] = [self._size_entry(f) for f in factors]
        last: ops.Constant | ops.Value | None = None
        if uniform and rest[0] > 0 and self.chance(0.6):
            last = self._size_entry(rest[0])
        entries.insert(place, last)
        columns = [(f,) * self.groups for f in factors]
        columns.insert(place, rest)
        return self._expand(ref, mode, entries, columns)

    def _size_entry(self, size: int) -> ops.Constant | ops.Value:
        """Return a size as a constant, or as a value that is computed to be it."""
        if self.chance(0.75):
            return ops.Constant(size, INDEX)
        exact = [s for s in self.frame.scalars if s.interval is not None and isinstance(s.operand, ops.Value)
                 and set(s.interval.low) == set(s.interval.high) == {size}]
        if exact and self.chance(0.7):
            return self.pick(exact).operand
        half, other = ops.Constant(size // 2, INDEX), ops.Constant(size - size // 2, INDEX)
        spread = (size,) * self.groups
        return self.scalar(lambda r: ops.Arith(kind="add", lhs=half, rhs=other, result=r), INDEX,
                           interval=Interval(spread, spread)).operand

    def _expand(self, ref: Ref, mode: int, entries: Sequence[ops.Constant | ops.Value | None],
                columns: Sequence[Sizes]) -> Ref:
        old = ref.type
        constants = [entry.value if isinstance(entry, ops.Constant) else None for entry in entries]
        known = product([c for c, entry in zip(constants, entries, strict=True) if entry is not None])
        shape = list(constants)
        if None in entries and known is not None and old.shape[mode] is not None:
            shape[entries.index(None)] = old.shape[mode] // known
        strides: list[Size] = []
        stride = old.strides[mode]
        for size in shape:
            strides.append(stride)
            stride = None if stride is None or size is None else stride * size
        new_type = MemrefType(old.element, (*old.shape[:mode], *shape, *old.shape[mode + 1 :]),
                              (*old.strides[:mode], *strides, *old.strides[mode + 1 :]))
        result = ops.Value(self.name(), new_type)
        self.emit(ops.Expand(source=ref.value, mode=mode, shape=tuple(entries), result=result))
        shapes, all_strides = [], []
        for actual, actual_strides, row in zip(ref.shapes, ref.strides, self._rows(columns), strict=True):
            shapes.append((*actual[:mode], *row, *actual[mode + 1 :]))
            inner = tuple(actual_strides[mode] * math.prod(row[:i]) for i in range(len(row)))
            all_strides.append((*actual_strides[:mode], *inner, *actual_strides[mode + 1 :]))
        return Ref(result, ref.root, tuple(shapes), tuple(all_strides))

    def random_fuse(self, ref: Ref) -> Ref:
        if ref.order < 2:
            raise Retry
        first = self.rng.randrange(ref.order - 1)
        last = self.rng.randint(first + 1, ref.order - 1)
        for shape, strides in zip(ref.shapes, ref.strides, strict=True):
            if any(strides[k] * shape[k] != strides[k + 1] for k in range(first, last)):
                raise Retry
        old = ref.type
        new_type = MemrefType(old.element,
                              (*old.shape[:first], product(old.shape[first : last + 1]), *old.shape[last + 1 :]),
                              (*old.strides[: first + 1], *old.strides[last + 1 :]))
        result = ops.Value(self.name(), new_type)
        self.emit(ops.Fuse(source=ref.value, first=first, last=last, result=result))
        shapes = tuple((*s[:first], math.prod(s[first : last + 1]), *s[last + 1 :]) for s in ref.shapes)
        strides = tuple((*s[: first + 1], *s[last + 1 :]) for s in ref.strides)
        return Ref(result, ref.root, shapes, strides)

    # --- operands of a wanted shape ---

    def fitted(self, ref: Ref, wanted: Sequence[Sizes]) -> Ref:
        """Return a view of `ref` whose modes have the wanted sizes, `ref` itself where it has them."""
        if list(wanted) == [ref.sizes(mode) for mode in range(ref.order)]:
            return ref
        drop = ref.order - len(wanted)
        if drop < 0:
            raise Retry
        dropped = set(self.rng.sample(range(ref.order), drop))
        slices, remaining = [], list(wanted)
        for mode in range(ref.order):
            sizes = ref.sizes(mode)
            if mode in dropped:
                slices.append(ops.Slice(self.index_for(sizes).operand, is_index=True))
                continue
            lengths_here = remaining.pop(0)
            if lengths_here == sizes:
                slices.append(ops.Slice(ops.Constant(0, INDEX)))
            elif len(set(lengths_here)) == 1 and lengths_here[0] > 0 and min(sizes) >= lengths_here[0]:
                slices.append(self.slice_of(sizes, lengths_here, None))
            else:
                raise Retry
        return self.subview(ref, slices, self._rows(wanted))

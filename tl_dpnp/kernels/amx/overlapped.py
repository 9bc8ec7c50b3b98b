"""Products on tiles whose operands are packed between the products that come before.

To make three bf16 of each f32, and tiles of these, takes a core as long as to multiply them, by other units: both are
done at a time, where the instructions of one stand between those of the other.  So what the next step takes, a tile
along k of those tiles of C that are computed together, is packed during a step.  Its images take the place of those
that were multiplied before, in the nearest cache: images are larger than what they are made of, and stores wait for
lines that are not there.

Nothing is fetched of A and B that a core's caches hold: vectors load them long before they are needed, and fetching
would take the ways to memory from these loads and from stores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.amx.emitter import MOST_WRITTEN, ROW, Emitter, Tile, emit_all, extent
from tl_dpnp.kernels.amx.fetching import Run
from tl_dpnp.kernels.amx.micro_kernel import Joined
from tl_dpnp.kernels.amx.packing import Packer, plus, times
from tl_dpnp.kernels.amx.rows import MOST, WORD
from tl_dpnp.kernels.dpas.fragments import Size
from tl_dpnp.kernels.llvm import constant, index, shuffle
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["Overlapped"]


class _Step(NamedTuple):
    """A tile along k, of tiles of C; `turn` is the place of its images where those of several are kept.

    It is the first one that takes `packs_a`, tiles of A, and `packs_b`.
    """

    rows: list[Tile]
    columns: list[Tile]
    k: int
    row_turn: int
    turn: int
    packs_a: bool
    packs_b: bool


class Overlapped(Emitter):
    """See the module."""

    def emit(self) -> None:
        cut = self.kernel.cut(self.a.size)
        self.fetching = replace(self.fetching, have_room=False)
        if self.keeps_a:
            self.pack_new_a()
        rows = self.group_list(cut)
        if len(rows) <= MOST_WRITTEN + 1:
            self._run(rows, 0)
        else:
            self.groups(cut, lambda tiles, number: self._run([tiles], number))

    @property
    def _keeps_b(self) -> bool:
        return self.kernel.keeps_b(self.a.size, self.b.size, self.a.k)

    def _steps(self, rows: Sequence[list[Tile]], first: Size) -> list[_Step]:
        """Return the steps of groups of rows, of which the first one has this number."""
        is_first = isinstance(first, int) and first == 0
        columns = self.group_list(self.kernel.cut(self.b.size))
        places = [(number, group, column, k) for number, group in enumerate(rows) for column in range(len(columns))
                  for k in range(self.depth)]
        return [_Step(group, columns[column], k, number % 2, turn % 2, column == 0 and not self.keeps_a,
                      not self._keeps_b or (is_first and number == 0))
                for turn, (number, group, column, k) in enumerate(places)]

    def _run(self, rows: Sequence[list[Tile]], first: Size) -> None:
        """Emit the products of groups of rows."""
        steps = self._steps(rows, first)
        before = times(self.builder, first, len(steps))
        count = len(steps) // len(rows) * self.group_counts[0]
        emit_all(self._packing(steps[0]))
        runs: list[Run] = []
        for number, (step, following) in enumerate(zip(steps, [*steps[1:], None], strict=True)):
            if step.k == 0:
                if len(steps) == 1:  # no other step packs while lines are waited for
                    self.fetch_block(step.rows, step.columns)
                else:
                    runs = self._runs_to_fetch(step)
                self.clear(step.rows, step.columns)
            self.fetching.share(plus(self.builder, before, number), count)
            share = -(-len(runs) // (self.depth - step.k))
            self._multiply(step, following, runs[:share])
            runs = runs[share:]
            if step.k == self.depth - 1:
                self.store_all(step.rows, step.columns)

    def _runs_to_fetch(self, step: _Step) -> list[Run]:
        """Return what to fetch of C between the products of a group: all of it where columns begin within lines.

        Each tile takes parts of two lines of a column then.  Whole lines are stored without being fetched.
        """
        result = self.fetching.result
        stride = None if result is None else result.strides[1]
        if isinstance(stride, int) and stride * WORD % CACHE_LINE == 0:
            return []
        return self.fetching.runs_of(step.rows[0].first, step.columns[0].first, extent(step.rows), extent(step.columns))

    def _multiply(self, step: _Step, following: _Step | None, runs: Sequence[Run]) -> None:
        """Emit the products of a step, and between them what packs the operands of the following one and fetches."""
        joined = self._joined(step.k)
        terms = self.kernel.products if joined is None else [(tile, tile) for tile in range(len(joined.pairs))]
        products = len(terms) * len(step.rows) * len(step.columns)
        packing = iter(()) if following is None else self._packing(following)
        rows = 0 if following is None else self._rows_to_pack(following)
        multiplied = packed = fetched = 0

        def after() -> None:
            nonlocal multiplied, packed, fetched
            multiplied += 1
            wanted = math.ceil(len(runs) * multiplied / products)
            self.fetching.runs(runs[fetched:wanted])
            fetched = wanted
            for _ in islice(packing, max(0, math.ceil(rows * multiplied / products) - packed)):
                packed += 1

        self.products(step.rows, step.columns, terms,
                      lambda i, term: (self.at(self.images_of_a, self._place_of_a(step, i, term)), ROW),
                      lambda j, term: (self.at(self.images_of_b, self._place_of_b(step, j, term)), ROW), after)
        emit_all(packing)

    # --- tiles with several terms -------------------------------------------------------------------------------------

    def _joined(self, k: Size) -> Joined | None:
        return self.kernel.joined(self.a.k) if isinstance(k, int) and k == self.depth - 1 else None

    def pack(
        self, packer: Packer, tile: Tile, k: Size, images: ir.Value, place: Callable[[int], Size]
    ) -> Iterator[None]:
        joined = self._joined(k)
        if joined is None:
            return super().pack(packer, tile, k, images, place)
        b = self.builder
        terms: list[ir.Value] = []

        def put(image: int, number: int, row: ir.Value) -> None:
            target = b.gep(self.at(images, place(image)), [index(number * MOST)])
            b.store(row, b.bitcast(target, row.type.as_pointer(target.type.addrspace)), align=MOST * WORD)

        def store_a(term: int, number: int, row: ir.Value) -> None:
            for image, pairs in enumerate(joined.pairs):
                for at in (at for at, (of_a, _) in enumerate(pairs) if of_a == term):
                    put(image, at * joined.words + number, row)
                for rest in range(len(pairs) * joined.words, MOST) if term == number == 0 else ():
                    put(image, rest, constant(row.type, 0))

        def store_b(term: int, number: int, row: ir.Value) -> None:
            terms[term:] = [row]
            for image, pairs in enumerate(joined.pairs) if len(terms) == self.terms else ():
                put(image, number, self._side_by_side(joined, [of_b for _, of_b in pairs], terms))

        return packer.pack(tile.first, tile.size, times(b, k, self.elements), joined.words, self.last,
                           store_a if packer.operand == "A" else store_b)

    def _side_by_side(self, joined: Joined, wanted: Sequence[int], terms: Sequence[ir.Value]) -> ir.Value:
        """Return a row of a tile of B with the words of some terms; the last words of each term are zeros."""
        first, *others = dict.fromkeys(wanted)
        places = [(wanted[lane // joined.words], lane % joined.words) if lane // joined.words < len(wanted) else
                  (first, MOST - 1) for lane in range(MOST)]
        lanes = [word if term == first else MOST - 1 for term, word in places]
        value = terms[first]
        for other in others:
            lanes = [MOST + word if term == other else lane for (term, word), lane in zip(places, lanes, strict=True)]
            value, lanes = shuffle(self.builder, value, [terms[other]], lanes), list(range(MOST))
        return value if others else shuffle(self.builder, value, [], lanes)

    # --- what is packed -----------------------------------------------------------------------------------------------

    def _packing(self, step: _Step) -> Iterator[None]:
        """Return what packs the operands of a step that no earlier one had, some rows at each step of the iterator."""
        of_a = (self.pack(self.a, tile, step.k, self.images_of_a, partial(self._place_of_a, step, tile))
                for tile in (step.rows if step.packs_a else ()))
        of_b = (self.pack(self.b, tile, step.k, self.images_of_b, partial(self._place_of_b, step, tile))
                for tile in (step.columns if step.packs_b else ()))
        return chain.from_iterable(chain(of_a, of_b))

    def _rows_to_pack(self, step: _Step) -> int:
        return MOST * (len(step.rows) * step.packs_a + len(step.columns) * step.packs_b)

    def _place_of_a(self, step: _Step, tile: Tile, term: int) -> Size:
        """Return the number of an image of A: of those rows, or where they are but one step, of these and the next."""
        if self.keeps_a:
            return self.place_of_a(step.k, tile, term)
        turn = step.k if self.depth > 1 else step.row_turn
        return (turn * self.kernel.together + tile.kind) * self.terms + term

    def _place_of_b(self, step: _Step, tile: Tile, term: int) -> Size:
        """Return the number of an image of B: of all of them, or of this step and the next."""
        if self._keeps_b:
            return self.place_of_b(tile.number, step.k, term)
        return (step.turn * self.kernel.together + tile.kind) * self.terms + term

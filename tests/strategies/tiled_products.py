"""Random programs that compute one product tile by tile with cooperative matrices, and mistaken ones."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

__all__ = ["MISTAKES", "TiledProduct"]

_STORAGE = {"f16": "float16", "bf16": "uint16", "f32": "float32", "f64": "float64"}
#: Types of factors, of sums and of results.
_TYPES = (("f16", "f32", "f32"), ("bf16", "f32", "f32"), ("f32", "f32", "f32"), ("f64", "f64", "f64"),
          ("bf16", "f32", "bf16"), ("f16", "f32", "f16"))
_LAUNCHES = ("numbered", "along axes", "in bands", "backwards", "persistent")
_SUBGROUPS = ("by axes", "numbered", "foreach_tile")
_LOOPS = ("plain", "ahead", "twice", "backwards", "peeled", "counted", "in two")
_SUMS = ("zero", "of C", "scaled", "by a parameter", "both")
#: What is wrong with a program; none of these is the product where sizes are more than one tile.
MISTAKES = ("a work-group less", "overlapping rows", "gaps between columns", "one term less", "a later start",
            "a double step", "another row of A", "another column of B", "another term of B", "stored twice",
            "a part of C", "too many terms", "another matrix of A")


@dataclass
class TiledProduct:
    """The program of a seed, of tiles whose sides are multiples of `unit`; `mistake` is one of `MISTAKES`."""

    seed: int
    unit: int = 4
    types: tuple[tuple[str, str, str], ...] = _TYPES
    mistake: str | None = None
    most: int = 3
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(f"{self.seed} {self.mistake}")
        self.factor, self.kept, self.result = rng.choice(self.types)
        self.rows, self.columns, self.depth = (self.unit * rng.choice((1, 2)) for _ in range(3))
        self.launch, self.subgroups = rng.choice(_LAUNCHES), rng.choice(_SUBGROUPS)
        self.loop, self.sums = rng.choice(_LOOPS), rng.choice(_SUMS)
        if self.kept != self.result and self.sums in ("by a parameter", "both"):
            self.sums = "zero"  # which bf16 and f16 have no such factors for
        self.along = rng.choice((1, 2)), rng.choice((1, 2))
        self.transposes = rng.random() < 0.5, rng.random() < 0.5
        self.is_turned = rng.random() < 0.3
        self.is_checked = self.loop in ("ahead",) or self.launch in ("persistent",) or rng.random() < 0.5
        self.batch = rng.choice((0, 0, 1, 3)) if self.mistake != "another matrix of A" else 2
        self.sliced = "ABC" if self.mistake else rng.choice(("ABC", "AC", "C")) if self.batch else ""
        #: Whether tiles are those of views that begin with the part of a work-group.
        self.has_views = rng.random() < 0.3
        block = self.rows * self.along[0], self.columns * self.along[1]
        least = 2 if self.mistake else 1
        m, n = (side * rng.randint(least, self.most) for side in block)
        k = self.depth * 2 * rng.randint(1, self.most)
        if self.is_checked and not self.mistake:
            m, n = (size - rng.randrange(side) for size, side in zip((m, n), block, strict=True))
            k = k if self.loop in ("twice", "peeled", "in two", "backwards") else k - rng.randrange(self.depth)
        self.sizes = m, n, k
        self.tiles = -(-m // block[0]), -(-n // block[1])
        self.block = block

    # --- the call ----------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[int, int, int]:
        """The extents of the launch."""
        down, right = self.tiles
        batch = max(1, self.batch)
        if self.launch == "along axes":
            return down - (self.mistake == "a work-group less"), right, batch
        if self.launch == "persistent":
            return max(1, batch * down * right // 2), 1, 1
        may_be_more = self.is_checked and self.launch == "numbered" and not (self.batch or self.has_views)
        more = self.seed % 2 if may_be_more and not self.mistake else 0
        return batch * down * right + more - (self.mistake == "a work-group less"), 1, 1

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The sizes of A, B and C."""
        m, n, k = self.sizes
        a, b, c = ((k, m) if self.transposes[0] else (m, k)), ((n, k) if self.transposes[1] else (k, n)), (m, n)
        return [(*shape, self.batch) if self.batch and name in self.sliced else shape
                for name, shape in zip("ABC", (a, b, c[::-1] if self.is_turned else c), strict=True)]

    def numbers(self) -> list[np.ndarray]:
        """Return A, B and C, of whole numbers in f32."""
        numbers = np.random.default_rng(self.seed)
        return [numbers.integers(-2, 3, shape).astype("float32") for shape in self.shapes]

    def arrays(self) -> list[np.ndarray]:
        """Return A, B and C as memrefs have them."""
        return [np.asfortranarray((values.view("uint32") >> 16).astype("uint16") if type == "bf16" else
                                  values.astype(_STORAGE[type]))
                for values, type in zip(self.numbers(), (self.factor, self.factor, self.result), strict=True)]

    def expected(self) -> np.ndarray:
        """Return what C is behind a program without mistake, in f64, before it is rounded."""
        a, b, c = (np.moveaxis(values.astype("float64"), 2, 0) if values.ndim == 3 else values.astype("float64")
                   for values in self.numbers())
        product = (a.swapaxes(-1, -2) if self.transposes[0] else a) @ (b.swapaxes(-1, -2) if self.transposes[1] else b)
        product = product.swapaxes(-1, -2) if self.is_turned else product
        if self.batch:
            c, product = np.moveaxis(c, 0, 2), np.moveaxis(np.broadcast_to(product, c.shape), 0, 2)
        return {"zero": product, "of C": product + c, "scaled": 0.5 * product, "by a parameter": self.alpha * product,
                "both": self.alpha * product + 2.0 * c}[self.sums]

    @property
    def alpha(self) -> float:
        """The argument for %alpha."""
        return 3.0

    # --- the program -------------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The text of the program."""
        del self.lines[:]
        self._launch()
        body = "\n  ".join(self.lines)
        types = [f"memref<{type}{'x?' * len(shape)}>"
                 for type, shape in zip((self.factor, self.factor, self.result), self.shapes, strict=True)]
        c, k = (("1", "0") if self.is_turned else ("0", "1")), "0" if self.transposes[0] else "1"
        attributes = "" if self.subgroups == "foreach_tile" else \
            f"work_group_size({32 * self.along[0]}, {self.along[1]}) subgroup_size(32)"
        return f"""func @f(%A: {types[0]}, %B: {types[1]}, %C: {types[2]}, %alpha: {self.kept}) {attributes} {{
  %0 = constant 0 : index  %1 = constant 1 : index  %2 = constant 2 : index
  %m = size %C[{c[0]}] : index  %n = size %C[{c[1]}] : index  %k = size %A[{k}] : index
  %rows = constant {self.block[0]} : index  %columns = constant {self.block[1]} : index
  %tr = constant {self.rows} : index  %tc = constant {self.columns} : index  %step = constant {self.depth} : index
  %apart = constant {self.block[0] - self.unit * (self.mistake == "overlapping rows")} : index
  %aside = constant {self.block[1] + self.unit * (self.mistake == "gaps between columns")} : index
  %r1 = sub %rows, %1 : index  %mr = add %m, %r1 : index  %down = div %mr, %rows : index
  %c1 = sub %columns, %1 : index  %nc = add %n, %c1 : index  %right = div %nc, %columns : index
  {body}
}}"""

    def _launch(self) -> None:
        """Write which tile a work-group computes."""
        add = self.lines.append
        if self.launch == "along axes":
            add("%row = group_id.x : index  %column = group_id.y : index  %slice = group_id.z : index")
        else:
            add("%number = group_id.x : index  %all = mul %down, %right : index  %groups = num_groups.x : index")
            if self.launch == "persistent":
                add(f"%batch = constant {max(1, self.batch)} : index  %whole = mul %all, %batch : index")
                add("for %tile = %number, %whole, %groups {")
            place = "%tile" if self.launch == "persistent" else "%number"
            add(f"%slice = div {place}, %all : index  %g = rem {place}, %all : index" if self.batch else
                f"%slice = constant 0 : index  %g = add {place}, %0 : index")
        if self.launch == "along axes":
            pass
        elif self.launch == "in bands":
            # Two columns at a time, as far as there are two.
            add("%band = mul %down, %2 : index  %which = div %g, %band : index")
            add("%first = mul %which, %2 : index  %left = sub %right, %first : index  %wide = min %left, %2 : index")
            add("%inside = rem %g, %band : index  %row = div %inside, %wide : index")
            add("%at = rem %inside, %wide : index  %column = add %first, %at : index")
        elif self.launch == "backwards":
            add("%last = sub %all, %1 : index")
            add("%h = sub %last, %g : index  %column = rem %h, %right : index  %row = div %h, %right : index")
        else:
            add("%row = rem %g, %down : index  %column = div %g, %down : index")
        self._subgroup()
        if self.launch == "persistent":
            add("}")

    def _subgroup(self) -> None:
        """Write which tile a sub-group computes."""
        add = self.lines.append
        add("%i0 = mul %row, %apart : index  %j0 = mul %column, %aside : index")
        self._views()
        if self.subgroups == "foreach_tile":
            add("%i9 = add %i8, %rows : index  %j9 = add %j8, %columns : index")
            add(f"foreach_tile (%i, %j) = (%i8, %j8), (%i9, %j9) as (%p, %q) <= ({self.rows}, {self.columns}) {{")
        else:
            add("parallel {")
            if self.subgroups == "by axes":
                add("%sx = subgroup_id.x : i32  %x = cast %sx : index  %sy = subgroup_id.y : i32  "
                    "%y = cast %sy : index")
            else:
                add("%s = subgroup_linear_id : i32  %nx = num_subgroups.x : i32")
                add("%sx = rem %s, %nx : i32  %x = cast %sx : index  %sy = div %s, %nx : i32  %y = cast %sy : index")
            add("%xi = mul %x, %tr : index  %i = add %i8, %xi : index")
            add("%yj = mul %y, %tc : index  %j = add %j8, %yj : index")
        self._sums()
        add("}")

    def _views(self) -> None:
        """Write the matrices %a, %b and %c of the work-group, and where its part of these begins."""
        add = self.lines.append
        rest = {"A": ("%i0 : ?", ":"), "B": (":", "%j0 : ?"), "C": ("%i0 : ?", "%j0 : ?")}
        turned = dict(zip("ABC", (*self.transposes, self.is_turned), strict=True))
        for name, shape in zip("ABC", self.shapes, strict=True):
            view = f"%{name}"
            if len(shape) == 3:
                place = "%0" if name == "A" and self.mistake == "another matrix of A" else "%slice"
                add(f"%{name}s = subview %{name}[:, :, {place}] : {self._memref(name, 2, is_part=True)}")
                view = f"%{name}s"
            slices = (rest[name][::-1] if turned[name] else rest[name]) if self.has_views else (":", ":")
            add(f"%{name}v = subview {view}[{', '.join(slices)}] : {self._memref(name, 2, is_part=True)}")
        add(f"%i8 = {'constant 0' if self.has_views else 'add %i0, %0'} : index  "
            f"%j8 = {'constant 0' if self.has_views else 'add %j0, %0'} : index")

    def _memref(self, name: str, order: int, *, is_part: bool) -> str:
        type = self.result if name == "C" else self.factor
        return f"memref<{type}{'x?' * order}{',strided<1,?>' * is_part}>"

    def _type(self, use: str) -> str:
        shape = {"a": (self.rows, self.depth), "b": (self.depth, self.columns), "acc": (self.rows, self.columns)}[use]
        return f"coopmatrix<{self.kept if use == 'acc' else self.factor}x{shape[0]}x{shape[1]},matrix_{use}>"

    def _access(self, word: str, is_turned: bool) -> str:
        return f"{word}{'.t' if is_turned else ''}{'.both_checked' if self.is_checked else ''}"

    def _sums(self) -> None:
        """Write what is added up, scaled and stored."""
        add, acc = self.lines.append, self._type("acc")
        own = acc.replace(f"<{self.kept}x", f"<{self.result}x")
        place = "%j, %i" if self.is_turned else "%i, %j"
        add(f"%Z = constant 0 : {acc}")
        first = "%Z"
        if self.sums in ("of C", "both"):
            other = place if self.mistake != "a part of C" else "%0, %0"
            add(f"%L = {self._access('cooperative_matrix_load', self.is_turned)} %Cv[{other}] : {own}")
            first = "%L"
            if own != acc:
                add(f"%Lf = cast %L : {acc}")
                first = "%Lf"
        if self.sums == "both":
            add(f"%K = cooperative_matrix_scale 2.0, {first} : {acc}")
            self._loop("%Z")
            add(f"%R1 = cooperative_matrix_scale %alpha, %R : {acc}  %R2 = add %R1, %K : {acc}")
        else:
            self._loop(first)
            scale = {"scaled": "0.5", "by a parameter": "%alpha"}.get(self.sums)
            add(f"%R2 = cooperative_matrix_scale {scale}, %R : {acc}" if scale else f"%R2 = add %R, %Z : {acc}")
        if own != acc:
            add(f"%R3 = cast %R2 : {own}")
        stored = "%R2" if own == acc else "%R3"
        store = f"{self._access('cooperative_matrix_store', self.is_turned)} {stored}, %Cv[{place}]"
        add(store)
        if self.mistake == "stored twice":
            add(store)

    def _factors(self, k: str, suffix: str) -> str:
        """Return the loads of the factors for the terms from k on, as %A and %B with a suffix."""
        i, j, other = "%i", "%j", k
        lines = []
        wrong = {"another row of A": "i", "another column of B": "j", "another term of B": "k"}.get(self.mistake or "")
        if wrong:
            before = {"i": "%i", "j": "%j", "k": k}[wrong]
            lines.append(f"%w{suffix} = sub {before}, %{'step' if wrong == 'k' else '1'} : index  "
                         f"%v{suffix} = max %w{suffix}, %0 : index")
            i, j, other = (f"%v{suffix}" if letter == wrong else name
                           for letter, name in (("i", i), ("j", j), ("k", other)))
        a, b = (f"{k}, {i}" if self.transposes[0] else f"{i}, {k}"), (
            f"{j}, {other}" if self.transposes[1] else f"{other}, {j}")
        for name, place, turned, use in (("A", a, self.transposes[0], "a"), ("B", b, self.transposes[1], "b")):
            load = self._access("cooperative_matrix_load", turned)
            lines.append(f"%{name}{suffix} = {load} %{name}v[{place}] : {self._type(use)}")
        return "\n".join(lines)

    def _loop(self, first: str) -> None:
        """Write %R, the sum that begins with a matrix."""
        add, (a, b, acc) = self.lines.append, map(self._type, ("a", "b", "acc"))
        product = "cooperative_matrix_mul_add"
        start, stop, step = "%0", "%k", "%step"
        if self.mistake == "one term less":
            add("%end = sub %k, %step : index")
            stop = "%end"
        elif self.mistake == "too many terms":
            add("%begin = sub %0, %step : index  %repeated = add %0, %step : index")
            add(f"{self._factors('%0', 'm')}\n%First = {product} %Am, %Bm, {first} : {acc}")
            first = "%First"
        elif self.mistake == "a later start":
            start = "%step"
        elif self.mistake == "a double step":
            add("%far = mul %step, %2 : index")
            step = "%far"
        head = f"%R = for %l = {start}, {stop}, {step} init(%c={first}) -> ({acc}) {{"
        one = f"{self._factors('%l', '1')}\n%d = {product} %A1, %B1, %c : {acc}"
        if self.loop == "ahead":
            add(f"{self._factors(start, '0')}\n%R, %Ae, %Be = for %l = {start}, {stop}, {step} "
                f"init(%c={first}, %a=%A0, %b=%B0) -> ({acc}, {a}, {b}) {{\n%next = add %l, {step} : index\n"
                f"{self._factors('%next', '1')}\n%d = {product} %a, %b, %c : {acc}\nyield (%d, %A1, %B1) }}")
        elif self.loop == "twice":
            add(f"%two = mul {step}, %2 : index\n{head.replace(f'{step} init', '%two init')}\n{one}\n"
                f"%l2 = add %l, {step} : index\n{self._factors('%l2', '2')}\n"
                f"%d2 = {product} %A2, %B2, %d : {acc}\nyield (%d2) }}")
        elif self.loop == "backwards":
            add(f"%lend = sub {stop}, %step : index\n{head.replace(f'for %l = {start}', f'for %f = {start}')}\n"
                f"%s9 = sub %lend, %f : index %l = add %s9, {start} : index\n{one}\nyield (%d) }}")
        elif self.loop == "peeled":
            add(f"{self._factors(start, '0')}\n%before = sub {stop}, {step} : index\n"
                f"%R0, %Ae, %Be = for %l = {start}, %before, {step} "
                f"init(%c={first}, %a=%A0, %b=%B0) -> ({acc}, {a}, {b}) {{\n%next = add %l, {step} : index\n"
                f"{self._factors('%next', '1')}\n%d = {product} %a, %b, %c : {acc}\nyield (%d, %A1, %B1) }}\n"
                f"%R = {product} %Ae, %Be, %R0 : {acc}")
        elif self.loop == "counted":
            add(f"%R, %le = for %f = {start}, {stop}, {step} init(%c={first}, %l={start}) -> ({acc}, index) {{\n{one}\n"
                f"%next = add %l, {step} : index\nyield (%d, %next) }}")
        elif self.loop == "in two":
            add(f"{head.replace('%R =', '%R0 =').replace(f'{stop}, ', '%step, ')}\n{one}\nyield (%d) }}\n"
                f"{head.replace(f'= {start},', '= %step,').replace(f'%c={first}', '%c=%R0')}\n{one}\nyield (%d) }}")
        else:
            add(f"{head}\n{one}\nyield (%d) }}")

"""What random Python modules are made of: a prelude with classes, and texts with holes for everything else."""

from __future__ import annotations

__all__ = [
    "ARGUMENTS", "ARRAYS", "CHANGES", "COMPLEX_ARRAYS", "COMPLEX_NUMBERS", "CONDITIONS", "GLOBALS", "NEW_ARRAYS",
    "NUMBERS", "PRELUDE", "RESULTS", "STATEMENTS",
]

PRELUDE = '''\
import abc, collections, contextlib, copy, dataclasses, enum, functools, itertools, math, operator
from types import SimpleNamespace

import dpnp
import numpy as np


class Mode(enum.Enum):
    A = 1
    B = 2


Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass
class Data:
    k: object
    w: object
    history: list = dataclasses.field(default_factory=list)

    @property
    def double(self):
        return self.k * 2

    def forward(self, x):
        return x + self.k


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: float
    w: object = None


class Suppress:
    def __init__(self, k):
        self.k = k

    def __enter__(self):
        LOG.append("enter")
        return self.k

    def __exit__(self, kind, value, trace):
        LOG.append(kind and kind.__name__)
        return kind is KeyError


class Counter:
    def __init__(self):
        self.count = 0

    def next(self):
        self.count += 1
        return self.count


class Touch:
    """Code that is not followed, and reads and changes an array of the module."""

    def change(self, *others):
        W0[...] = W0 + 1
        return float(W0.sum())

    cached = functools.cached_property(change)
    total = property(lambda self: W0.sum())
    __add__ = __enter__ = change

    def __exit__(self, *error):
        self.change()

    def __iter__(self):
        yield self.change()
        yield self.change()

    def __bool__(self):
        return self.change() > 0


class Slots:
    __slots__ = ("k", "w")

    def __init__(self, k, w):
        self.k, self.w = k, w


class Odd:
    def __init__(self, values):
        self.values = values

    def __getitem__(self, key):
        return self.values[key]

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __contains__(self, value):
        return value in self.values

    def __add__(self, other):
        return self.values[0] + other

    def __getattr__(self, name):
        if name == "k":
            return self.values[-1]
        raise AttributeError(name)


class Doubled(property):
    def __get__(self, instance, owner=None):
        return self if instance is None else super().__get__(instance, owner) * 2


class Registry(abc.ABC):
    pass


class ByFlag(type):
    def __instancecheck__(cls, value):
        return FLAG


class Flagged(metaclass=ByFlag):
    pass


class Tool:
    def __init__(self, k):
        self.k = k

    def __call__(self, x, y=0):
        return x * self.k + y

    @Doubled
    def double(self):
        return self.k

    def __len__(self):
        return int(abs(self.k))

    def __abs__(self):
        return self.k

    def __round__(self, digits=None):
        return self.k

    def __format__(self, spec):
        return "x" * len(self)

    def __eq__(self, other):
        return self.k == getattr(other, "k", None)

    def __hash__(self):
        return 3

    def __lt__(self, other):
        return self.k < other.k


class Mild(Tool):
    def __call__(self, x, y=0):
        return x + self.k + y


class Sharp(Tool):
    pass


class Scaled:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name) * Layer.factor

    def __set__(self, instance, value):
        setattr(instance, self.name, value)


class Layer:
    factor = {num}
    level = Scaled()

    def __init__(self, k, w):
        self.k = k
        self.w = w
        self.level = 1
        self.history = []

    @property
    def double(self):
        return self.k * self.factor

    @classmethod
    def of_class(cls, x):
        return x * cls.factor

    @staticmethod
    def plain(x, k={num}):
        return x - k * Layer.factor

    def __call__(self, x):
        return self.forward(x) + self.k

'''

#: What module-level names hold: texts with ``{num}``, ``{float}`` and ``{array}`` for values.
GLOBALS = {
    "K": "{num}", "T": "{float}", "FLAG": "{flag}", "MODE": "Mode.{mode}", "NAME": "'{mode}'", "W0": "{array}",
    "W1": "{array}", "ITEMS": "[{num}, {num}, {num}]", "ARRAYS": "[{array}, {array}]",
    "TABLE": "{'a': {num}, 'b': {array}, 'c': [{num}, {num}]}", "PAIR": "Pair({array}, {num})", "NONE": "None",
    "STATE": "SimpleNamespace(k={num}, w={array}, inner=SimpleNamespace(k={num}, w={array}), history=[])",
    "OBJ": "Sub({num}, {array})", "OTHER": "Layer({num}, {array})", "DATA": "Data({num}, {array})", "LOG": "[]",
    "FROZEN": "Frozen({float}, {array})", "COUNTER": "Counter()", "SLOTS": "Slots({num}, {array})",
    "ODD": "Odd([{num}, {num}])", "SET": "{1, {num}}", "PARTIAL": "functools.partial(Layer.plain, k={num})",
    "CLOSED": "make({num})", "ITERATOR": "iter([{num}, {num}, {num}, {num}])", "ALIAS": "STATE.inner",
    "LAYERS": "[OBJ, OTHER, h0, dpnp.negative]", "POINT": "Pair({num}, {float})",
    "PAIRS": "[Pair({num}, {num}), Pair({num}, {float})]", "ORDERED": "collections.OrderedDict(a={num}, b={num})",
    "SHAPE": "({three}, 4, 1)", "SIZES": "[{three}, {three}]", "AXES": "(-1, {bit})",
    "QUEUE": "collections.deque([{num}, {num}])", "VIEW": "W0[..., ::-1]", "SCALAR": "np.{numpy}({int})",
    "TOOL": "Tool({num})", "TOOLS": "[Sharp({int}), Tool({int})]", "KEYED": "{1: {num}, 'a': {num}}",
    "TOUCH": "Touch()", "RANGE": "range(0, 3, 2)", "FUNCTIONS": "{h0: {num}, dpnp.negative: {num}}",
    "C0": "{complex}", "C1": "{complex}", "Z": "{z}", "PART": "C0.imag", "WAVE": "SimpleNamespace(c={complex}, z={z})",
}

ARRAYS = """
{avar}; {avar}; {avar}; a; b; W0; W1; STATE.w; STATE.inner.w; OBJ.w; DATA.w; TABLE['b']; ARRAYS[0]; ARRAYS[-1]; PAIR.x
SLOTS.w; VIEW; FROZEN.w; s.w; items[0]; ALIAS.w; PAIR[0]; {arr} + {arr}; {arr} - {num}; {arr} * {num}
python({num}) - {arr}
{arr} + {num}; {arr} / 2; {arr} * 0.5; {arr} % 3; -{arr}; dpnp.clip({arr} @ {arr}, -4, 4)
dpnp.clip({arr} @ {arr}, -{pos}, {pos}); dpnp.clip(dpnp.matmul({arr}, {arr}), -4, 4)
dpnp.clip(dpnp.square({arr}), 0, 9); dpnp.where({arr} > {num}, {arr}.copy(), {num}); dpnp.maximum({arr}, {num})
abs({arr}); dpnp.minimum({arr}, {arr}); {arr}.swapaxes(-1, -2); dpnp.swapaxes({arr}, -1, -2)
{arr} - {arr}.max(-1, keepdims=True)
{arr}[..., ::-1]; {arr}[::-1]; {arr}[0]; {arr}.copy(); dpnp.zeros_like({arr}); {arr}.astype('f4')
dpnp.sign({arr} - 0.3)
dpnp.clip(dpnp.einsum('...ij,...jk->...ik', {arr}, {arr}), -4, 4); dpnp.asarray({arr}); dpnp.add({arr}, {num})
dpnp.clip({arr}.sum(axis=-1, keepdims=True), -4, 4); dpnp.tanh({arr}); dpnp.full((4, 4), {num})
dpnp.ones((4, 4)) * {num}; h0({arr}); h0({arr}); h1({arr}, {num}); h1({arr}, k={num}); h1({arr}); h1(*[{arr}, {num}])
h1({arr}, **{'k': {num}}); h2({arr}, {arr}); OBJ({arr}); OBJ.forward({arr}); OTHER.forward({arr}); OBJ.of_class({arr})
Layer.of_class({arr}); Layer.plain({arr}); OBJ.plain({arr}, {num}); DATA.forward({arr}); PARTIAL({arr}); CLOSED({arr})
make({num})({arr}); g({arr}); LAYERS[{index}]({arr}); Sub({num}, {arr}).forward({arr}); Layer.forward(OTHER, {arr})
nested({arr}); (lambda x: x * {num})({arr}); (lambda x, k={num}: x - k)({arr})
functools.reduce(dpnp.add, [{arr}, {arr}]); functools.reduce(lambda x, y: x - y, ARRAYS); sum([{arr}, {arr}])
sum(ARRAYS); [{arr}, {arr}][{bit}]; ({arr} if {cond} else {arr}); functools.partial(h1, k={num})({arr})
operator.mul({arr}, {num}); {arr} - {arr}.std(-1, keepdims=True); {arr}.var(0) + {arr}
dpnp.stack([{arr}, {arr}, {arr} * {half}], axis=-1)[..., {bit}]; dpnp.concatenate([{arr}, {arr}])[:4]
dpnp.concatenate([{arr}[..., 1:], {arr}[..., :1]], axis=-1); dpnp.vstack([{arr}, {arr} + {num}])[::2]
{arr} // {pos}; {arr} // 2; python({num}) // dpnp.clip({arr}, -4, -1); {arr} % {num}
python({num}) % dpnp.clip({arr}, 1, 4); dpnp.clip({arr} ** {half}, -4, 4)
dpnp.clip(abs({arr}) ** {num}, 0, 4); abs({arr}) ** 0.5; {pos} ** dpnp.clip({arr}, -2, 2)
dpnp.tril({arr}); dpnp.triu({arr}, k={bit}); {arr} * dpnp.tri(4)
dpnp.swapaxes(dpnp.tril(dpnp.swapaxes({arr}, 0, -1), k={bit}), 0, -1); dpnp.triu({arr}[..., 0])[..., None] + {arr}
{arr} + dpnp.arange({arr}.shape[0])[:, None, None] % 3; {arr}[..., 0][:, None, :] * dpnp.tri({arr}.shape[0], 4)[:, None]
dpnp.argmax(({arr} > {num}) * 1, axis=-1, keepdims=True) * {arr}; {arr} + dpnp.argmin(({arr} > {num}) * 1, axis=0)
dpnp.clip(dpnp.cumsum({arr}, axis=-1), -4, 4); {arr}[dpnp.asarray([2, 0, -1])]; dpnp.clip({arr}.cumsum(0), -4, 4)
{arr}[:, dpnp.argmax(({arr} > {num}) * 1, axis=-1)]; dpnp.take({arr}, dpnp.asarray([1, {int}, 0]), axis=-1)
dpnp.linalg.norm({arr}, axis=-1, keepdims=True) + {arr}; dpnp.clip(dpnp.linalg.norm({arr}, 1, 0), 0, 4)
dpnp.linalg.inv(dpnp.clip({arr}, -4, 4) + 30 * dpnp.eye(4, dtype="f4"))
dpnp.linalg.solve(dpnp.clip({arr}, -4, 4) + 30 * dpnp.eye(4, dtype="f4"), {arr})
{arr}.reshape({arr}.shape); getattr(STATE, 'w'); {'p': {arr}, 'q': {arr}}['{pq}']
{arr}[{cut}:]; dict(p={arr}, q=1)['p']; list(map(h0, [{arr}]))[0]; [h1(x, y) for x, y in zip(ARRAYS, ITEMS)][{bit}]
sum(x * y for x, y in zip(ARRAYS, ITEMS)); {arr} * ({arr} > {num}); Pair({arr}, 1).x; PAIR._replace(x={arr}).x
Frozen({num}, {arr}).w; OBJ.w * OBJ.k; STATE.w @ dpnp.eye(4); dpnp.clip({arr} ** 2, 0, 5); (y := {arr}) + y
Slots({num}, {arr}).w; recursive({arr}, 2); SimpleNamespace(w={arr}).w; dpnp.abs(x=items[0])
dpnp.roll({arr}, {int}, axis=-1); dpnp.roll({arr}, ({bit}, 1), (0, -1)); dpnp.floor({arr} + 0.3); dpnp.ceil({arr} - 0.3)
dpnp.rint({arr} + 0.2); dpnp.trunc({arr} - 0.3); dpnp.arctan({arr}); dpnp.log1p(abs({arr})); dpnp.hypot({arr}, {arr})
dpnp.expm1(dpnp.clip({arr}, -4, 2)); dpnp.arctan2({arr}, abs({arr}) + 1); dpnp.logaddexp({arr}, {num})
dpnp.tile({arr}, (1, 2))[..., :4]; dpnp.repeat({arr}, 2, axis=-1)[..., ::2]; dpnp.isfinite({arr} / 2) * {arr}
dpnp.diff({arr}, axis=-1, append={arr}[..., :1]); dpnp.trace({arr}, 0, -2, -1)[..., None, None]; dpnp.copysign({arr}, 2)
dpnp.diagonal({arr}, {bit}, -2, -1)[..., None, :1]; {arr}.diagonal(0, -2, -1)[..., None] * {arr}; abs({arr}).round()
dpnp.clip({arr}, {num}, None)
{arr} - dpnp.clip(dpnp.logsumexp({arr}, axis=-1, keepdims=True), -4, 4); {arr} + dpnp.count_nonzero({arr}, axis=0)
dpnp.kron({arr}[0], dpnp.ones((1, {bit} + 1)))[..., :4]
dpnp.cross({arr}[..., :3], {arr}[..., 1:]).sum(-1, keepdims=True)
{arr} - dpnp.sum({arr}, axis=(-1, -2), keepdims=True).astype('f4'); dpnp.stack([{arr}, {arr}])[{bit}]
{arr} + np.float32({num}); {arr} * dpnp.zeros(SHAPE).size; {arr} + dpnp.full(SIZES, {num}).shape[0]
{arr} * dpnp.asarray(ITEMS).max(); {arr} + dpnp.sum(dpnp.asarray(POINT)); {arr} - dpnp.ones(shape=SIZES).sum()
({carr}).real; ({carr}).imag; dpnp.real({carr}); dpnp.imag({carr}).astype('f4'); dpnp.clip(abs({carr}), 0, 4)
({carr}).real.copy(); {arr} + ({carr}).imag; ({carr}).real[..., ::-1]; PART; dpnp.where(dpnp.isnan({carr}), 0, {arr})
{arr} * ({carr} == {carr}); dpnp.clip(dpnp.var({carr}, axis=-1, keepdims=True), 0, 4) + {arr}
{arr} + {arr}.sum(axis=AXES, keepdims=True).size; {arr} * dpnp.broadcast_to(SCALAR, SHAPE).shape[0]
{arr} + dpnp.reshape(dpnp.arange(SIZES[0] * SIZES[1]), SIZES).shape[0]; {arr} + dpnp.zeros(*[SHAPE]).ndim
dpnp.full(**{'shape': SHAPE, 'fill_value': {num}}).sum() + {arr}; dpnp.concatenate(ARRAYS)[:4]
dpnp.stack(ARRAYS)[{bit}]
dpnp.tile({arr}, SIZES)[..., :4, :4]; {arr} - dpnp.zeros(tuple(SIZES)).shape[1]; {arr} + dpnp.zeros(SHAPE[:2]).shape[0]
---
copy.copy({arr}); dataclasses.replace(DATA, w={arr}).w; max([{arr}], key=id); next(x for x in ARRAYS)
"""

#: Arrays of complex numbers; what is multiplied stays small.
COMPLEX_ARRAYS = """
{cvar}; {cvar}; {cvar}; C0; C1; WAVE.c; {arr} + 1j * {arr}; {arr} * {cnum}; python({cnum}) - {arr}; {carr} + {carr}
{carr} - {arr}; {carr} + {cnum}; {carr} * {cnum}; python({cnum}) * {carr}; {carr} * {half}; {carr} / (1 + 2j)
{carr} / {pos}; ({carr}).conj(); dpnp.conj({carr}); -{carr}; +{carr}; {carr} * {arr}; {arr}.astype('c8')
({carr}).astype('c16'); ({carr}).astype('c8'); ({carr})[..., ::-1]; ({carr})[0]; ({carr}).swapaxes(-1, -2)
({carr})[..., {bit}:]; ({carr}).sum(axis=-1, keepdims=True) / 4; ({carr}).mean(axis=0)
dpnp.clip({arr}, -2, 2) @ {carr} / 8; dpnp.einsum('...ij,...jk->...ik', {carr}, {carr}) / 64
({carr} @ ({carr}).conj().swapaxes(-1, -2)) / 64; dpnp.where({arr} > {num}, {carr}, {cnum})
dpnp.stack([{carr}, {carr}])[{bit}]; dpnp.exp(1j * {arr}); ({carr}).copy()
dpnp.concatenate([{carr}, {arr}])[:4]; dpnp.zeros_like({carr}); dpnp.full((4, 4), {cnum}); dpnp.tril({carr})
dpnp.add({carr}, {carr}); dpnp.multiply({carr}, {cnum}); dpnp.exp(dpnp.clip({arr}, -4, 2) * {cnum}); h0({carr})
h1({carr}, {num}); (lambda x, k={cnum}: x * k)({carr}); ({carr})[dpnp.asarray([1, 0])]; dpnp.roll({carr}, 1, axis=-1)
(lambda x: x.real - 1j * x.imag)({carr}); ({carr} if {cond} else {carr}); {carr} * (1 + 0.5j) ** {bit}
{carr} / ({carr} + 8); dpnp.square({carr}) / 64; {carr} - ({carr}).mean(-1, keepdims=True)
---
{carr} ** 2 / 16; dpnp.sqrt({carr}); dpnp.angle({carr}) * {carr}; ({carr}).cumsum(0) / 4; dpnp.sin({arr}) * {carr}
"""

COMPLEX_NUMBERS = """
{z}; {z}; Z; WAVE.z; complex({num}, {num}); {num} + 1j; {cnum} * {half}; ({cnum}).conjugate(); {num} * 1j
{cnum} - {num}; ({cnum} if {cond} else {cnum}); np.complex64({z}); np.complex128({z}); (lambda z: z + 1)({cnum})
---
complex(({carr}).sum()) / 64
"""

NUMBERS = """
{nvar}; {nvar}; {int}; {half}; K; T; t; n; STATE.k; STATE.inner.k; OBJ.k; OBJ.double; OTHER.k; Layer.factor
Sub.factor; DATA.k; DATA.double; MODE.value; ITEMS[0]; ITEMS[-1]; ITEMS[{bit}]; TABLE['a']; TABLE['c'][{bit}]
TABLE.get('d', {num}); PAIR.y; PAIR[1]; len(ITEMS); sum(ITEMS); max(ITEMS); min(ITEMS); len(TABLE); len(STATE.history)
ALIAS.k; FROZEN.k; sorted(ITEMS, key=lambda v: -v)[0]; sum(x for x in ITEMS if x > 0); sum([x * 2 for x in ITEMS])
s.k; SLOTS.k; len(NAME); int({num}); float({num}); round({num}); abs({num}); min({num}, 2); max({num}, {num})
{num} + {num}; -{num}; {num} * {num}; {num} - {num}; {num} / 2; {num} // 2; {num} % 3; ({num} if {cond} else {num})
({num} or {num}); a.shape[0]; b.ndim; len(a); {arr}.ndim; getattr(STATE, 'extra', {num}); getattr(OBJ, 'k')
int(bool({cond})); SCALAR; functools.reduce(operator.add, ITEMS); functools.reduce(lambda x, y: x - y, ITEMS, {num})
extra.get('z', 1); {'A': {num}, 'B': {num}}[NAME]; [*ITEMS, {num}][-1]; ITEMS[::-1][0]; len(more)
dict(TABLE, a={num})['a']; dict(zip('ab', ITEMS))['a']; sum(i * v for i, v in enumerate(ITEMS)); math.floor({num})
math.sqrt(abs({num})); math.copysign(1, {num}); divmod({num}, 2)[0]; sum(map(abs, ITEMS)); len({*ITEMS})
ITEMS.index(ITEMS[-1]); ITEMS.count({num}); any(x > 1 for x in ITEMS) + 1; (lambda v: v + 1)({num}); scalar({num})
h1.__defaults__[0]; list(TABLE.values())[0]; [k for k in TABLE].index('a'); len(f"{{num}:.1f}"); np.sqrt(4.0)
np.float32({num}); (lambda *v: len(v))(*ITEMS); complex({num}).real; ({cnum}).imag; {num}.real; (z := {num}) + z
{num} ** 2; sum(ITEMS, start={num}); math.prod(ITEMS); 3 & len(ITEMS); float('{int}'); int('{int}')
sum(v * w for v, w in PAIRS); sum([v - w for i, (v, w) in enumerate(PAIRS)]); {v: w for v, w in PAIRS}.get(1, {num})
sum(x * y for (x, _), (_, y) in zip(PAIRS, PAIRS)); (lambda k, j=(m := {num}): j * m)(1)
sum(POINT); max(POINT); max(*POINT); len(POINT); [*POINT][0]; sum(v * w for v, w in zip(POINT, ITEMS)); tuple(POINT)[1]
sum(i * v for i, v in enumerate(POINT)); max(PAIRS)[0]; sorted(PAIRS)[0].y; sum(p.x for p in PAIRS); POINT.count({num})
min(PAIRS, key=lambda p: p.y).x; list(zip(*PAIRS))[1][0]; sum(TABLE['c']); max(TABLE['c'], ITEMS)[0]
next(reversed(ITEMS)); sum(v for k, v in TABLE.items() if k == 'a'); len(TABLE.keys()); dict(TABLE.items())['a']
operator.getitem(ITEMS, {bit}); operator.add({num}, {num}); int(operator.is_(ITEMS, ITEMS)); int(POINT < ({num}, 1))
functools.reduce(max, ITEMS, {num}); sum(map(operator.neg, POINT)); int(operator.contains(ITEMS, {num}))
max(ITEMS, key=TOOL); min(ITEMS, key=TOOL); sorted(ITEMS, key=TOOL)[0]; functools.reduce(TOOL, ITEMS)
sorted(ITEMS, key=functools.partial(TOOL, y={num}))[0]; (isinstance(TOOL, Registry) + {num}); operator.call(TOOL, {num})
(isinstance(TOOLS[0], Sharp) + {num}); (issubclass(Sharp, Registry) + {num}); sum(map(TOOL, ITEMS)); TOOL({num})
sum(key for key in KEYED if key != 'a'); RANGE.stop; len(RANGE); FUNCTIONS.get(h0, {num}); [h1, h0].index(h0)
max(ITEMS, key=lambda v: v * K); len(LOG); str({num}).count('1'); bool({num}) * 2; all(ITEMS) * 1; len(OBJ.history)
---
ARRAYS.index(ARRAYS[-1]); (W0 in ARRAYS[:0]) + 1
OBJ.level; next(iter(ITEMS)); {Mode.A: {num}, Mode.B: {num}}[MODE]; len(vars(STATE)); operator.itemgetter(0)(ITEMS)
COUNTER.count; operator.attrgetter('k')(STATE); float(dpnp.clip({arr}.sum(), -3, 3)); int(({arr} > 0).any()); ODD[0]
ODD.k; len(ODD); COUNTER.next(); next(ITERATOR, 1); id(STATE) == id(s); OBJ.__dict__['k']; vars(OBJ)['k']
len(TOOL); abs(TOOL); round(TOOL); len(f"{TOOL}"); len(format(TOOL)); len('{}'.format(TOOL)); TOOL.double; max(TOOLS).k
len({*TOOLS}); len({tool for tool in TOOLS}); len({TOOLS[0]: 1, TOOLS[1]: 2}); (TOOLS[0] == TOOLS[1]) + {num}
len(dict([(TOOLS[0], 1), (TOOLS[1], 2)])); {TOOLS[0]: {num}}.setdefault(TOOLS[1], {num}); sorted(TOOLS)[0].k
max(TOOLS, key=lambda tool: tool).k; (isinstance({num}, Flagged) + {num}); (TOOL in TOOLS) + {num}
ORDERED['a']; sum(ORDERED.values()); max(ORDERED, key=ORDERED.get).count('a'); sum(QUEUE); QUEUE[0]; len(QUEUE)
max(TABLE['c'], ITEMS, key=len)[-1]; hash({num}) % 3; sum(SET); len(SET); ODD + 1
"""

CONDITIONS = """
{num} > {num}; {num} <= {num}; {num} == {num}; {num} != {num}; FLAG; not FLAG; MODE is Mode.A; MODE == Mode.B
NAME == 'A'; {cond} and {cond}; {cond} or {cond}; not {cond}; 'a' in TABLE; 'd' in TABLE; {num} in ITEMS
W0 is W1; b is STATE.w
{num} not in ITEMS; t is None; hasattr(STATE, 'extra'); len(ITEMS) > 2; a is b; a is W0; s is STATE; s is not None
isinstance(t, float); type(n) is int; a.shape[0] > 2; a.dtype == dpnp.float32; ITEMS == [1, 2]; g is h0; callable(g)
0 < {num} < 3; {num} in (1, 2); isinstance(s, Layer); NONE is None; any(ITEMS); all(x > 0 for x in ITEMS)
STATE.inner is ALIAS; {num} in {1, 2, 0.5}; {num}; ITEMS; STATE.history; OBJ is OTHER; ARRAYS[0] is a; W0 is STATE.w
PAIR == (1, 2) if False else True; isinstance({num}, (int, float)); LOG
---
bool(({arr} > {num}).any()); float({arr}.max()) > {num}; {num} in SET; ODD; {num} in ODD; DATA == DATA
"""

#: Statements; an indented line of a body is written after ``|``, and ``{body}`` stands for more of them.
STATEMENTS = """
{newa} = {arr}; {newa} = {arr}; {newa} = {arr}; {newa} = {arr}; {newn} = {num}; {newn} = {num}; {newn} = {num}
{avar} = {arr}; {nvar} += {num}; {nvar} *= {half}; {nvar} = {num}; {newa}, {newn} = {arr}, {num}
{newn} = {newn2} = {num}; {avar} += {num}; {avar} *= {half}; {avar} += {arr}; {avar} -= {arr}; {avar}[...] = {arr}
{avar}[0] = {num}; {avar}[..., 0] -= {num}; {avar}[..., {bit}] = {arr}[..., 0]; {avar}[{avar} > {num}] = {num}
dpnp.diagonal({avar}, 0, -2, -1)[...] = {num}
{avar}[::-1, 1:] = {num}; {avar}[1:] = {arr}[:-1]; {avar}[{avar} < {num}] = {float}; {avar}[..., ::2] = {arr}[..., 1::2]
 {avar}[:] = {num}; dpnp.add({arr}, {num}, out={avar})
dpnp.maximum({avar}, {num}, out={avar}); {avar}[..., ::-1][...] = {arr}; W0[...] = {arr}; ARRAYS[0] -= {num}
VIEW[0] = {num}; {newa} = {avar}[..., ::-1]; {newa} = {avar}.swapaxes(-1, -2); {newa} = {avar}[0:1]; {newa} = {avar}
{newa} = {avar}.reshape({avar}.shape); {newl} = [{arr}, {arr}]; {lvar}.append({arr}); {lvar}[0] = {arr}
{lvar} += [{arr}]; {lvar}.extend([{arr}, {arr}]); {newa} = {lvar}[-1]; {newa} = {lvar}.pop()
{newa}, *{newl} = [{arr}, {arr}, {arr}]; {newl} = [h0(x) for x in {lvar}]; {lvar}.reverse(); {newl} = {lvar}[::-1]
{newl} = list({lvar}); {newl} = [*{lvar}, {arr}]; {newa} = sum({lvar}); {newo} = Layer({num}, {arr})
{newo} = Sub({num}, {arr}); {newo} = Data({num}, {arr}); {newo} = SimpleNamespace(k={num}, w={arr}); {newa} = {ovar}.w
{newn} = {ovar}.k; {newo} = STATE; {newo} = s; {newo} = DATA; {newo} = Slots({num}, {arr})
{newc} = {carr}; {newc} = {carr}; {cvar} += {carr}; {cvar} *= {cnum}; {cvar} += {arr}; {cvar}[...] = {cnum}
{newc} = {cvar}; {cvar}.real = {arr}; {cvar}.imag = {num}; {cvar}.real += {num}; {cvar}.imag[0] = {num}
{newa} = {cvar}.real; {cvar}.imag[...] = {arr}; {cvar}[..., 0] = {carr}[..., 1]; {newa} = {cvar}.imag
{cvar}[0] = {cnum}; {cvar}.real *= {half}; dpnp.add({carr}, {carr}, out={cvar}); {cvar}.imag -= {cvar}.real
{newc} = {cvar}[..., ::-1]; {cvar}[0].real[1] = {num}
{newa} = {ovar}.w * {ovar}.k; {newf} = lambda x: x * {num}; {newf} = lambda x, k={num}: x + k
{newf} = functools.partial(h1, k={num}); {newf} = OBJ.forward; {newf} = make({num}); {newf} = g
{newf} = LAYERS[{index}]; {newa} = {fvar}({arr}); {newa} = {fvar}({fvar}({arr}))
def {newf}(x, k={num}):|return x * k + {num}
def {newf}(x, *others, **named):|return x - {num} if others else h0(x)
if {cond}:|{body}
if {cond}:|{body}|else:|{body}
if {cond}:|return {arr}
for i in range({bit} + 2):|{body}
for i in range(2):|{cvar} = {cvar} * {cnum} + i|{body}
for i, v in enumerate(ITEMS):|{nvar} = {nvar} + v * i|{body}
for {newa} in [{arr}, {arr}]:|{body}
for {newa} in ARRAYS:|{avar} = {avar} + {newa}
for {newn} in ITEMS:|if {num} > 2:|~break|~{body}
for layer in LAYERS:|{avar} = layer({avar})
w = 0|while w < {bit} + 1:|{body}|w += 1|else:|{body}
if (m := {num}) > 1:|{nvar} = m|{body}
assert {num} is not None, 'never'; a, b = b, a; {newa} = {avar} = {arr}; {newn}, {newn2} = divmod({num}, 2)
({newa}), {newn} = PAIR; {newa}, {newn2} = Pair({arr}, {num}); ({newa}, {newn}), {newn2} = PAIR, {num}
{newn}, [{newn2}, *w] = {num}, [{num}, *ITEMS]; w = {newn}, {newn2} = POINT; {newa}, {newn} = w = {arr}, {num}
for {newn}, {newn2} in PAIRS:|{body}
for i, ({newn}, {newn2}) in enumerate(PAIRS):|{nvar} = {newn} + i|{body}
for ({newa}, {newn}), {newn2} in [(PAIR, {num}), (({arr}, {num}), {num})]:|{body}
w = [0, 0]|w[:2] = ITEMS|w.extend(SIZES)|{nvar} = w[-1] + w[0]
w = [h0, dpnp.negative]|w.append(h0)|{nvar} = w.index(h0) + w.count(h0)|{newa} = w[-1]({arr})
w = [[1]]|w.insert(0, SIZES)|w.append(ITEMS)|{nvar} = w[0][0] + w[-1][0]
---
C0 *= 0.5j; C1.imag = {num}; PART += {num}; WAVE.c = {carr}; WAVE.z = {cnum}; C1 = {carr}; Z = {cnum}; C0.real = {arr}
W0 *= {half}; ARRAYS[0] -= {num}; W1 = W1 + 1; STATE.w += {num}; ITEMS.append({num}); ITEMS[0] = {num}; ITEMS.pop(0)
ITEMS.sort(); ITEMS[{bit}] += {num}; ARRAYS.append({arr}); ARRAYS[-1] = {arr}; STATE.k = {num}; STATE.w = {arr}
STATE.k += {num}; STATE.inner.k *= {half}; STATE.inner.w = {arr}; STATE.extra = {num}; STATE.history.append({arr})
STATE.history.append({num}); OBJ.k = {num}; OBJ.k -= {num}; OBJ.w = {arr}; OBJ.w = OBJ.w * 1; TABLE['b'] = {arr}
TABLE['d'] = {num}; TABLE.update(a={num}); TABLE['c'][0] = {num}; TABLE.pop('d', None); TABLE.setdefault('d', {num})
Layer.factor = {num}; DATA.k = {num}; DATA.w = {arr}; DATA.history += [{num}]; LOG.append({num})
LOG.append(f"{{num}} {{num}:.2f}"); K = {num}; T = {num}; W1 = {arr}; FLAG = {cond}; MODE = Mode.{mode}
SLOTS.k = {num}; SLOTS.w = {arr}; OBJ.level = {num}; setattr(STATE, 'k', {num}); s.k = {num}; s.w = {arr}
items.append({num}); items[0] = {arr}; LOG.append(NAME); COUNTER.next(); {ovar}.k = {num}; {ovar}.w = {arr}
W0.note = {num}; LOG.append(getattr(W0, 'note', 0)); a.grad = {arr}; LOG.append(getattr(STATE.w, 'grad', {num}))
LOG.append(DATA.double); LOG.append(OBJ.double); W0 += {num}; LOG.append(float(dpnp.clip(TOUCH.total, -9, 9)))
LOG.append(TOUCH + 1); LOG.append(TOUCH.cached)
{newo} = copy.copy(DATA); STATE.other = {ovar}; LOG.append({ovar}); STATE.call = {fvar}
def {newf}(x):|nonlocal {nvar}|{nvar} += 1|return x + {nvar}
for v, w in zip(ITEMS, [1, 2, 3, 4]):|ITEMS.append(w)|{nvar} = {nvar} + v
for i, v in enumerate(ITEMS):|if i < 5:|~ITEMS.append({num})|{nvar} = {nvar} + v
for v in reversed(ITEMS):|ITEMS[0] = {num}|{nvar} = {nvar} - v
for v in map(lambda v: v * 2, ITEMS):|if len(ITEMS) < 6:|~ITEMS.append(v)|{nvar} = {nvar} + v
for {newa} in filter(lambda x: x is not W1, ARRAYS):|if len(ARRAYS) < 5:|~ARRAYS.append({arr})|{avar} = {avar} + {newa}
for key, value in TABLE.items():|{body}|TABLE['z' + key] = 1
view = TABLE['c'], TABLE.keys(), TABLE.values()|TABLE['e'] = {num}|{nvar} = {nvar} + len(view[1]) * len(view[2])
{newl} = functools.reduce(lambda into, v: into.append(v) or into, ARRAYS, LOG)|{nvar} = len({newl})
functools.reduce(operator.iadd, [[{num}], [{num}]], ITEMS); list(map(LOG.append, ITEMS))
max(ITEMS, TABLE['c']).append({num})
QUEUE.append({num}); QUEUE.popleft(); ORDERED['a'] = {num}
for key, value in TABLE.items():|if key == 'b':|~{avar} = {avar} + value|~continue|LOG.append(key)
try:|{body}|{newa} = {arr} @ dpnp.ones(({three}, 3))|except ValueError as error:|LOG.append(type(error).__name__)|{body}
try:|{body}|except (TypeError, AttributeError):|{body}|finally:|LOG.append('end')
try:|{newn} = ITEMS[{three}]|except IndexError:|{nvar} = {num}
if {cond}:|raise ValueError(f"no {K}")
with Suppress({num}) as {newn}:|{body}
with TOUCH as {newn}:|{body}
for {newn} in TOUCH:|{body}
if TOUCH:|{body}
with Suppress({num}):|{body}|raise KeyError('k')
match {num}:|case 0 | 1:|~{body}|case float():|~{body}|case _:|~{body}
match PAIR:|case Pair(x={newa}, y={newn}):|~{body}
del ITEMS[-1]; LOG.append([type(x).__name__ for x in (t, n, {num}, {arr})]); LOG.append({num} is {num})
LOG.append(str({num})); LOG.append(({num}, {num})); LOG.append({'n': {num}, 'w': {arr}}); LOG.append(({arr}, {arr}))
LOG.append(h0); LOG.append(OBJ.forward)
LOG.append(lambda x: x + {num}); LOG.append(({arr}).shape); STATE.history = [{num}]
"""

RESULTS = """
{carr}; {cvar}, {carr}; ({cvar}).real, {cvar}; {cnum}, {carr}
{arr}; {arr}; {arr}, {arr}; [{arr}, {num}]; {'x': {arr}, 'n': {num}}; {avar}, {avar}; Pair({arr}, {num}); {ovar}; s
{lvar}, {avar}; Data({num}, {arr}); a; (a, {arr}); STATE; Layer({num}, {arr}); {fvar}; [[{arr}], ({num}, {avar})]
{num}; {cond}; None; items; {num}, {num}; STATE.w; {arr}.shape, {arr}; ITEMS, {arr}; {avar}[..., ::-1], {avar}
SimpleNamespace(r={arr}, me=STATE); {*ITEMS}; (x for x in [{arr}, {num}]); Frozen({num}, {arr})
({num}, {arr}, None, 'text', Mode.A, MODE, Layer, dpnp.float32); map(h0, [{arr}])
"""

NEW_ARRAYS = """
{arr} * {num}; {arr} + {num}; {arr} - {avar}, {arr} * {num}; dpnp.clip({arr} @ {avar}, -4, 4); {arr} + {avar}, {arr}, a
[{arr} * {num}, {num}]; {'x': {arr} + {num}, 'n': {num}}; Pair({arr} - {num}, {num}); Data({num}, {arr} * {num})
[[{arr} - {num}], ({num}, {avar})]; SimpleNamespace(r={arr} * {num}, me=STATE); Frozen({num}, {arr} + {num})
"""

CHANGES = """
K = {num}; K = {num}; T = {float}; FLAG = {flag}; MODE = Mode.{mode}; NAME = '{mode}'; W0 = {array}; W1 = {array}
Z = {z}; Z = {z}; C0 = {complex}; C1 = {complex}; C0 *= 2j; C1.real = {num}; PART[...] = {num}; WAVE.z = {z}
WAVE.c = C0; C1 = C0; PART = C1.real
W0 *= {half}; W0[0] = {num}; STATE.k = {num}; STATE.k = {float}; STATE.w = {array}; STATE.inner.k = {num}
STATE.inner = SimpleNamespace(k={num}, w={array}); STATE.extra = {num}; ITEMS[0] = {num}; ITEMS[-1] = {float}
ITEMS.append({num}); ITEMS.insert(0, {num}); ITEMS = [{num}, {num}]; ARRAYS[0] = {array}; ARRAYS[1] = ARRAYS[0]
ARRAYS.append({array}); TABLE['a'] = {num}; TABLE['b'] = {array}; TABLE['d'] = {num}; TABLE['c'][0] = {num}
TABLE['c'].append({num}); Layer.factor = {num}; Sub.factor = {num}; OBJ.k = {num}; OBJ.w = {array}
OBJ = Sub({num}, {array}); OBJ.factor = {num}; DATA = Data({num}, {array}); DATA.k = {float}
PAIR = Pair({array}, {num}); h1.__defaults__ = ({num},); Layer.forward = lambda self, x: x - {num}
Sub.forward = Layer.forward; OBJ.forward = h0; Layer.plain = staticmethod(lambda x, k=1: x + {num})
h0.__code__ = other.__code__; PARTIAL = functools.partial(Layer.plain, k={num}); CLOSED = make({num})
SHAPE = ({three}, 4, 1); SIZES = [{three}, {three}]; SIZES[0] = {three}; AXES = ({bit}, -1); SHAPE = (4, {three}, 1)
COUNTER.count = 7; LAYERS[0] = h0; LAYERS = LAYERS[::-1]; LAYERS.append(OTHER); VIEW[...] = {num}; STATE.w = W0
ALIAS = STATE; SLOTS.k = {num}; FROZEN = Frozen({float}, {array}); Data.forward = lambda self, x: x * self.k
Layer.double = property(lambda self: {num}); OBJ.__class__ = Layer; ODD.values[0] = {num}; SET.add({num})
SCALAR = np.{numpy}({int}); NONE = 1; OBJ.history.append({num}); h1.__kwdefaults__ = {'m': {num}}
POINT = Pair({num}, {float}); POINT = POINT._replace(x={num}); PAIRS[0] = Pair({num}, {num}); PAIRS.append(POINT)
ORDERED['a'] = {num}; ORDERED.move_to_end('a'); QUEUE[0] = {num}; QUEUE.rotate()
CLOSED.__closure__[0].cell_contents = {num}; dpnp_alias = None; vars(STATE)['k'] = {num}
TOOL.k = {num}; TOOL = Tool({num}); TOOL = Sharp({num}); TOOLS[0].k = {int}; TOOLS.reverse(); Registry.register(Tool)
Sharp.__bases__ = (Mild,); KEYED[True] = {num}; KEYED = {True: {num}, 'a': {num}}; KEYED = {1.0: {num}, 'a': 1}
RANGE = range(0, 4, 2); RANGE = range({bit}, 3); FUNCTIONS[h1] = {num}; FUNCTIONS = {h1: {num}}
make = lambda k: (lambda x: x + k); h0, other = other, h0
"""

ARGUMENTS = {
    "a": "{array}; {array}; {sized}; {sized}; {typed}; W0; {array}; {array}",
    "b": "{array}; {array}; {array}; W0; W1; STATE.w; VIEW; {array}; PART",
    "t": "{float}; {float}; {float}; {float}; {num}; {z}; np.{numpy}({int}); None; {flag}; MODE",
    "n": "{int}; {int}; {int}; {num}; {flag}; NONE",
    "s": "STATE; STATE; OBJ; OTHER; DATA; SLOTS; FROZEN; ALIAS; SimpleNamespace(k={num}, w={array}); OBJ; DATA; "
         "Layer({num}, {array})",
    "items": "ARRAYS; [{array}, {num}]; [{array}, {num}]; [W0, W0]; ({array}, {num})",
    "g": "h0; h0; h1; OBJ; OBJ.forward; OTHER; dpnp.negative; PARTIAL; CLOSED; make({num}); lambda x: x * {num}; "
         "Layer.plain; functools.partial(h1, k={num}); Sub.of_class; functools.partial(PARTIAL, k={num}); nested; "
         "operator.neg",
}

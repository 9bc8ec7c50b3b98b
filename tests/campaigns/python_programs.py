"""Random Python modules that compute with dpnp: classes, helpers, closures, containers, and a function `f` to be fused.

A module has ``f`` and the functions ``before_0``, ``before_1``, ..., each of which changes something and returns the
arguments of the next call.  It finds ``fused`` (a decorator) and ``random_array(seed, *shape, dtype=)`` among its
global variables.  Arrays hold small multiples of a half, and products are clipped, so that results are exact.
"""

from __future__ import annotations

import random
import re

from tests.campaigns.python_grammar import (
    ARGUMENTS,
    ARRAYS,
    CHANGES,
    COMPLEX_ARRAYS,
    COMPLEX_NUMBERS,
    CONDITIONS,
    GLOBALS,
    NEW_ARRAYS,
    NUMBERS,
    PRELUDE,
    RESULTS,
    STATEMENTS,
)

__all__ = ["random_module"]

def _split(text: str) -> list[str]:
    """Return the texts of a table, which end with a semicolon or a line; compound statements have a line each."""
    return [part for line in text.strip().splitlines() for part in ([line] if "|" in line else line.split("; "))]


def _both(text: str) -> tuple[list[str], list[str]]:
    """Return the texts before and after the line of dashes."""
    before, _, after = text.partition("---")
    return _split(before), _split(after)


#: By kind of hole: what leaves a plan, and what has to happen at each call or cannot be followed.
TABLES = {"arr": _both(ARRAYS), "num": _both(NUMBERS), "cond": _both(CONDITIONS), "statement": _both(STATEMENTS),
          "carr": _both(COMPLEX_ARRAYS), "cnum": _both(COMPLEX_NUMBERS)}
#: Where an expression ends that has become too deep, and what stands where there is no variable of a kind.
SIMPLE = {"arr": ["{avar}", "{avar}", "W0", "STATE.w"], "num": ["{nvar}", "{int}", "{half}", "K"],
          "cond": ["FLAG", "{nvar} > 1"], "carr": ["{cvar}", "C0", "C1"], "cnum": ["{z}", "Z"]}
NONE_YET = {"avar": "a", "cvar": "C0", "nvar": "K", "lvar": "ARRAYS", "ovar": "STATE", "fvar": "h0"}
_HOLE = re.compile(r"\{([a-z]+2?)\}")


#: Calls that functions of a level do not contain, so that there is no recursion without end.
_CALLS = [re.compile(rf"\b({found})\b") for found in (
    "h0|h1|h2|OBJ\\(|OTHER|LAYERS|g|nested|Sub|forward|PARTIAL|layer|fvar", "h1|h2|g|nested|LAYERS|layer|fvar",
    "h2|g|nested|LAYERS|layer|fvar", "(?!)",
)]


#: Kinds of variables that a statement uses only if there is one.
_LOCAL = re.compile(r"\{(lvar|ovar|fvar)\}")


class _Writer:
    """Writes one module; `scope` has the local variables by kind."""

    def __init__(self, seed: int, is_short: bool, changes_size: bool) -> None:
        self.rng = random.Random(seed)
        #: What calls give, how many statements `f` has, and what it returns.
        self.arguments, self.statements, self.results = [*ARGUMENTS], [1, 2, 3, 4, 6, 8], RESULTS
        #: How deep expressions are taken to be where they begin.
        self.depth = 0
        if is_short:
            self.arguments = self.arguments[: (2, 3, 4, 6)[seed % 4]]
            self.statements, self.results = [0, 0, 0, 1, 2], NEW_ARRAYS
            self.depth = 1
        self.scope: dict[str, list[str]] = {}
        self.count = 0
        self.changes_size = changes_size
        self.size = self.rng.choice([1, 2, 3, 3, 3]) if self.rng.random() < 0.95 else self.rng.randint(200, 600)
        self.effects = self.rng.choice([0.0, 0.0, 0.0, 0.0, 0.03, 0.3])
        self.level = 0
        self.used: set[str] = set()

    def drawn(self, kind: str) -> str:
        """Return one of the texts of a kind."""
        found = self.rng.choice(TABLES[kind][self.rng.random() < self.effects])
        while _CALLS[self.level].search(found) or (
            (lacking := _LOCAL.search(found)) and not self.scope.get(lacking[1]) and "{newl" not in found
        ):
            found = self.rng.choice(TABLES[kind][0])
        return found

    # --- values ------------------------------------------------------------------------------------------------------

    def fill(self, text: str, depth: int | None = None) -> str:
        """Return a text with its holes filled; new variables are known afterwards."""
        depth = self.depth if depth is None else depth
        new: list[tuple[str, str]] = []
        filled = _HOLE.sub(lambda match: self.hole(match[1], depth, new), text)
        for kind, name in new:
            self.scope.setdefault(kind, []).append(name)
        return filled

    def hole(self, kind: str, depth: int, new: list[tuple[str, str]]) -> str:
        rng = self.rng
        if kind.startswith("new"):
            known = [name for of, name in new if of == kind[3] + "var"]
            if known and not kind.endswith("2"):
                return known[0]
            self.count += 1
            new.append((kind[3] + "var", f"{kind[3]}{self.count}"))
            return new[-1][1]
        if kind in NONE_YET:
            return rng.choice(self.scope.get(kind) or [NONE_YET[kind]])
        if kind in SIMPLE:
            simple = depth > 1 or rng.random() < 0.25 * depth
            filled = self.fill(rng.choice(SIMPLE[kind]) if simple else self.drawn(kind), depth + 1)
            return filled if filled.isidentifier() else f"({filled})"
        size = self.size
        values = {
            "int": lambda: rng.choice(["0", "1", "2", "3", "-1"]),
            "half": lambda: rng.choice(["0.5", "-1.0", "1.5", "2"]),
            "float": lambda: rng.choice(["0.5", "1.0", "-1.5", "2.0", "-0.0", "0.0"]), "pos": lambda: rng.choice("234"),
            "flag": lambda: rng.choice(["True", "False"]), "mode": lambda: rng.choice("AB"),
            "pq": lambda: rng.choice("pq"), "bit": lambda: rng.choice("01"), "index": lambda: rng.choice("0123"),
            "cut": lambda: rng.choice(["", "0", "-1"]), "three": lambda: rng.choice("234"),
            "numpy": lambda: rng.choice(["float32", "float64", "int64"]),
            "z": lambda: rng.choice(["1j", "-1j", "0.5j", "(1 + 1j)", "(0.5 - 1j)", "(2 + 0j)", "-0j", "(-1 - 0j)"]),
            "complex": lambda: f"random_array({rng.randrange(99)}, {size}, 4, 4, "
                               f"dtype={rng.choice(['c8', 'c8', 'c16'])!r})",
            "array": lambda: f"random_array({rng.randrange(99)}, {'' if self.changes_size else f'{size}, '}4, 4)",
            "sized": lambda: f"random_array({rng.randrange(99)}, {rng.choice([1, 2, 3, 5])}, "
                             f"{rng.choice([4, 4, 4, 2, 3, 5, 7, 9])}, 4)",
            "typed": lambda: f"random_array({rng.randrange(99)}, {size}, 4, 4, "
                             f"dtype={rng.choice(['f8', 'f8', 'i4', 'i4', 'c8'])!r})",
        }
        return values[kind]()

    def plain(self, text: str) -> str:
        """Return a text with simple values only: those of global variables and arguments."""
        def number(match: re.Match[str]) -> str:
            return self.rng.choice(["{int}", "{half}", "{float}", "{int}", "{half}", "{float}", "np.{numpy}({half})"])

        return _HOLE.sub(lambda m: self.hole(m[1], 0, []), re.sub(r"\{num\}", number, text))

    # --- statements --------------------------------------------------------------------------------------------------

    def body(self, statements: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(statements):
            template = self.drawn("statement")
            while depth > 1 and "{body}" in template:
                template = self.drawn("statement")
            lines += self.statement(template, depth)
        return lines

    def statement(self, template: str, depth: int) -> list[str]:
        """Return the lines of a statement; what is bound in a body is not known after it."""
        if "|" not in template:
            return [self.fill(template)]
        if "nonlocal" in template and not any(name.startswith("n") for name in self.scope.get("nvar", [])):
            template = "{newn} = {num}"
            return [self.fill(template)]
        lines: list[str] = []
        outer = {kind: list(names) for kind, names in self.scope.items()}
        shared: list[tuple[str, str]] = []
        # the variables of one template keep their names in all of its lines
        fixed = {}
        if "nonlocal" in template:
            fixed["nvar"] = self.rng.choice([name for name in self.scope["nvar"] if name.startswith("n")])
        parts = re.split(r"(?<! )\|(?! )", template)
        for part in parts:
            indent = "" if part is parts[0] or part.startswith(_LEFT) else "    "
            indent, part = (indent + "    ", part[1:]) if part.startswith("~") else (indent, part)
            if part == "{body}":
                lines += [f"{indent}{line}" for line in self.body(self.rng.choice([1, 1, 2]), depth + 1)]
                continue
            for kind, name in fixed.items():
                part = part.replace(f"{{{kind}}}", name)
            part = _HOLE.sub(lambda m: self.hole(m[1], 0, shared) if m[1].startswith("new") else m[0], part)
            for kind, name in shared:
                if name not in self.scope.setdefault(kind, []) and kind != "fvar":
                    self.scope[kind].append(name)
            lines.append(indent + self.fill(part))
        self.scope = outer
        for kind, name in shared:
            if kind == "fvar" or template.startswith("w = 0"):
                self.scope.setdefault(kind, []).append(name)
        return lines

    def function(self, head: str, arrays: list[str], numbers: list[str], statements: int, result: str) -> list[str]:
        """Return the lines of a function."""
        self.scope = {"avar": arrays, "nvar": numbers}
        self.level = {"h1": 1, "h2": 2, "f": 3}.get(re.findall(r"def (\w+)", head)[0], 0)
        lines = [*self.body(statements, 0), f"return {self.fill(result)}"]
        stored = [name for name in GLOBALS if any(re.match(rf"\s*{name} [+*]?= ", line) for line in lines)]
        if stored:
            lines.insert(0, f"global {', '.join(stored)}")
        self.used.update(word for line in lines for word in re.findall(r"[A-Z]\w*", line))
        return [head, *(f"    {line}" for line in lines), "", ""]

    def method(self, name: str, result: str) -> list[str]:
        lines = self.function(f"def {name}(self, x):", ["x", "self.w"], ["self.k", "self.factor"],
                              self.rng.choice([0, 0, 1, 2]), result)
        return [f"    {line}".rstrip() for line in lines[:-1]]

    def module(self) -> str:
        """Return the text of the module."""
        rng = self.rng
        base = _using("(x)", rng)
        lines = self.plain(PRELUDE).splitlines()
        lines += [*self.method("forward", base), "", "", "class Sub(Layer):"]
        derived = rng.choice(["super().forward(x) + {num}", "x * self.k", "self.w + self.level"])
        lines += [*self.method("forward", derived), "", ""]
        result = rng.choice(["x * {num}", "{arr}"])
        lines += self.function("def h0(x):", ["x"], [], rng.choice([0, 0, 1, 2]), result)
        lines += self.function("def h1(x, k={num}, *, m=1):".replace("{num}", self.plain("{num}")), ["x"], ["k", "m"],
                               rng.choice([0, 1, 1, 2]), "x * k + m" if rng.random() < 0.5 else "{arr}")
        lines += self.function("def h2(x, y):", ["x", "y"], [], rng.choice([0, 1]), "{arr}")
        lines += ["def other(x):", f"    return x - {self.plain('{num}')}", "", ""]
        lines += ["def scalar(v):", f"    return v * {self.plain('{num}')} + K", "", ""]
        # NumPy makes an array of objects where one of its numbers is on the left of an array (docs/fusion.md, Limits).
        lines += ["def python(v):", "    return v.item() if isinstance(v, np.generic) else v", "", ""]
        lines += ["def recursive(x, n):", "    return x if n == 0 else recursive(x * 1.5 - n, n - 1)", "", ""]
        changing = ["        nonlocal k", "        k += 1"] if rng.random() < 0.2 else []
        lines += ["def make(k):", "    def inner(x):", *changing, "        return x * k + STATE.k"]
        lines += ["    return inner", "", ""]
        result = rng.choice(["x + K", "{arr}"])
        lines += self.function("@fused\ndef nested(x):", ["x"], [], rng.choice([0, 1]), result)
        lines += [f"{name} = {self.plain(text)}" for name, text in GLOBALS.items()]
        lines += ["a, b, t, n, s, items, g, more, extra = W0, W1, T, 2, STATE, ARRAYS, h0, (), {}", "", ""]
        others = [f"{name}={default if name in self.arguments else name}" for name, default in
                  (("s", None), ("items", ()), ("g", None))]
        lines += self.function(f"@fused\ndef f(a, b, t=1.5, n=2, {', '.join(others)}, *more, **extra):", ["a", "b"],
                               ["t", "n"], rng.choice(self.statements), rng.choice(_split(self.results)))
        lines += self.calls()
        return "\n".join(lines)

    def calls(self) -> list[str]:
        """Return the functions that change something and return the arguments of a call."""
        rng = self.rng
        lines: list[str] = []
        chosen = {name: self.plain(rng.choice(_split(text))) for name, text in ARGUMENTS.items()}
        most, again = rng.choice([0, 1, 3]), rng.choice([0.0, 0.0, 0.1, 0.3])
        for number in range(rng.choice([3, 4, 5, 6]) + 3 * self.changes_size):
            body = []
            for _ in range(rng.choice([0, most, rng.randint(0, most)]) if number else 0):
                changes = _split(CHANGES)
                if rng.random() < 0.7:  # of something that the functions use
                    changes = [change for change in changes if re.findall(r"\w+", change)[0] in self.used] or changes
                body.append(self.plain(rng.choice(changes)))
            for name, text in ARGUMENTS.items():
                if number and rng.random() < again:
                    chosen[name] = self.plain(rng.choice(_split(text)))
            if self.changes_size:
                size = rng.choice(_SIZES)
                chosen |= {name: f"random_array({rng.randrange(99)}, {size}, 4, 4)" for name in "ab"}
            given = [chosen[name] for name in self.arguments]
            if rng.random() < 0.1:
                given[1] = given[0] = "W0"
            body.append(f"return ({', '.join(given)}), {rng.choice(['{}', '{}', '{}', '{chr(122): 2.0}'])}")
            stored = sorted({word for line in body for word in re.findall(r"^(\w+)(?:, \w+)? [*]?= ", line)})
            stored += ["other"] if "other" in " ".join(body[:-1]) and "h0, other" in " ".join(body) else []
            names = list(dict.fromkeys(stored))
            head = [f"    global {', '.join(names)}"] if names else []
            lines += [f"def before_{number}():", *head, *(f"    {line}" for line in body), "", ""]
        return lines


#: Sizes of one magnitude, and a few others.
_SIZES = (5, 6, 7, 5, 6, 7, 5, 6, 7, 4, 3, 1)
_LEFT = ("except", "else", "finally", "while")


def _using(array: str, rng: random.Random) -> str:
    return rng.choice(["x * self.k", "dpnp.clip(x @ self.w, -4, 4)", "x + self.w * self.k", "{arr}"])


def random_module(seed: int, is_short: bool = False, changes_size: bool = False) -> str:
    """Return the text of the module of a seed: the first that is Python of those drawn.

    A short one has few statements in `f`, whose calls give few arguments, some of them objects, and which returns new
    arrays, by themselves or in objects.  One that changes a size has batches of one for each call, and no other arrays
    than matrices.
    """
    writer = _Writer(seed, is_short, changes_size)
    while True:
        text = writer.module()
        try:
            compile(text, "random_module", "exec")
        except SyntaxError:
            continue
        return text

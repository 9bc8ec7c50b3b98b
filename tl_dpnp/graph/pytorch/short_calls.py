"""Calls of a function that is one kernel: a function that is written for them, with all that they take in it.

To go from one function of Python's to the next takes as long as what these do.  What is written has names for all that
is of the user's function.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from tl_dpnp.graph.pytorch.planning import Register
from tl_dpnp.graph.pytorch.program import Program
from tl_dpnp.graph.pytorch.torch_adapter import CompiledFrame, Passed, is_plain_call
from tl_dpnp.graph.written_functions import add_named, listed, written

__all__ = ["ShortCall", "short_call"]

#: A function of the arguments of a call by position, which does nothing and returns `NotImplemented` for other calls.
ShortCall = Callable[[tuple[Any, ...]], Any]


def short_call(
    frame: CompiledFrame, function: types.FunctionType, program: Program, passed: Passed
) -> ShortCall | None:
    """Return the function; None where the program is not one kernel.

    `frame` has the guards, and `passed` is what the code that Dynamo has made passes to the program and returns.
    """
    sole, results = program.sole, program.planned.results
    if sole is None or not all(type(each) is Register for each in results):
        return None
    code = function.__code__
    given = [f"a{place}" for place in range(code.co_argcount)]
    made = [f"r{number}" for number in range(len(sole.made))]
    names: dict[str, Any] = {
        "is_plain": is_plain_call, "function": function, "code": code, "guards": frame.guards,
        "check": frame.check, "allocate": sole.allocate, "launch": sole.launch}

    named = functools.partial(add_named, names)
    variables = named("variable", (*code.co_varnames[: code.co_argcount], *code.co_freevars))
    cells = named("cell", function.__closure__ or ())
    others = [f"v{number}" for number in range(len(cells))]
    values = [*given, *others]
    registers = [*[values[place] for place in passed.given], *made]
    pool = [*[registers[result.slot] for result in results], *values]
    by_name = ", ".join(f"{name}: {value}" for name, value in zip(variables, values, strict=True))
    likes = [named(kind, (getattr(each, kind) for each in sole.made)) for kind in ("shape", "strides", "dtype")]
    operands = listed([*named("fixed", sole.launch.fixed), *[registers[slot] for slot in sole.launch.slots]])
    returned = [pool[place] for place in passed.returned]
    lines = [
        f"if not is_plain() or len(arguments) != {len(given)} or not launch.is_known"
        " or function.__code__ is not code or guards.cache_entry is None: return NotImplemented",
        *([f"{listed(given)} = arguments"] if given else []),
        # A variable from outside may have no value yet.
        *(["try:", *[f"    {other} = {cell}.cell_contents" for other, cell in zip(others, cells, strict=True)],
           "except ValueError: return NotImplemented"] if cells else []),
        f"if not check({{{by_name}}}): return NotImplemented",
        *[f"{name} = allocate({', '.join(like)})" for name, *like in zip(made, *likes, strict=True)],
        f"if not launch.run_if_known(({operands})): return NotImplemented",
        f"return {returned[0] if passed.kind is None else f'kind(({listed(returned)}))'}",
    ]
    names["kind"] = passed.kind
    return written(lines, names)

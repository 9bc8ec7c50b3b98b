"""A nest while a primitive rewrites it, and the rewrites that primitives are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tl_dpnp.errors import ScheduleError
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Buffer,
    Derived,
    Index,
    Leaf,
    Loop,
    Nest,
    Node,
    Stage,
    Synchronize,
    leaves,
    loops_of,
    map_accesses,
    map_assigns,
    stages_of,
    variables_of,
)

__all__ = ["Draft", "Renaming", "substitute"]

#: Loop variables and what replaces each: the sum of others.
Renaming = Mapping[str, Index]


class Draft:
    """A nest that one primitive may change freely: the schedule takes it over only if all went well.

    `names` are all that loops and buffers have or had: none is used twice.
    """

    def __init__(self, nest: Nest, names: Iterable[str], rule: str) -> None:
        self.nest = nest
        self.names = set(names)
        self.rule = rule

    def require(self, condition: bool, reason: str) -> None:
        """Raise ScheduleError, naming the nest and the primitive, unless the condition holds."""
        if not condition:
            raise self.error(reason)

    def error(self, reason: str) -> ScheduleError:
        """Return the error that says why the primitive is not legal."""
        return ScheduleError(f"{self.nest.name}: {self.rule} is not legal: {reason}")

    # --- looking -----------------------------------------------------------------------------------------------------

    def loop(self, name: str) -> Loop:
        """Return the loop of a variable; raises ScheduleError, listing the loops, where there is none."""
        for loop in loops_of(self.nest.body):
            if loop.variable == name:
                return loop
        known = ", ".join(loop.variable for loop in loops_of(self.nest.body))
        raise ScheduleError(f"{self.nest.name}: there is no loop {name}; the loops are {known}")

    def stage(self, name: str) -> Stage:
        """Return the stage of a buffer; raises ScheduleError, listing the stages, where there is none."""
        for stage in stages_of(self.nest.body):
            if stage.buffer == name:
                return stage
        known = ", ".join(stage.buffer for stage in stages_of(self.nest.body)) or "none"
        raise ScheduleError(f"{self.nest.name}: there is no stage {name}; the stages are {known}")

    def buffer(self, name: str) -> Buffer:
        """Return a buffer by name; raises ScheduleError, listing the buffers, where there is none."""
        buffers = self.nest.buffers
        if name not in buffers:
            raise ScheduleError(f"{self.nest.name}: there is no buffer {name}; the buffers are {', '.join(buffers)}")
        return buffers[name]

    def path_to(self, name: str) -> tuple[Loop | Stage, ...]:
        """Return the loops and stages around the stage or loop `name`, outermost first, and it itself."""
        def search(nodes: tuple[Node, ...], path: tuple[Loop | Stage, ...]) -> tuple[Loop | Stage, ...] | None:
            for node in nodes:
                if isinstance(node, (Loop, Stage)):
                    if name == (node.variable if isinstance(node, Loop) else node.buffer):
                        return (*path, node)
                    found = search(node.body, (*path, node))
                    if found is not None:
                        return found
            return None

        found = search(self.nest.body, ())
        assert found is not None
        return found

    def leaves(self) -> list[Leaf]:
        """Return the assignments of the nest with the loops around each."""
        return list(leaves(self.nest.body))

    # --- changing ----------------------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """Return the name, with as many primes as make it new, and take it."""
        while name in self.names:
            name += "'"
        self.names.add(name)
        return name

    def replace(self, name: str, change: Callable[[Loop], tuple[Node, ...]]) -> None:
        """Replace the loop `name` by other nodes."""
        def rewrite(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
            result: list[Node] = []
            for node in nodes:
                if isinstance(node, Loop) and node.variable == name:
                    result += change(node)
                else:
                    result.append(node.with_body(*rewrite(node.body)) if isinstance(node, (Loop, Stage)) else node)
            return tuple(result)

        self.body = rewrite(self.body)

    def replace_stage(self, name: str, new: tuple[Node, ...]) -> None:
        """Replace the stage of the buffer `name` by other nodes."""
        def rewrite(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
            result: list[Node] = []
            for node in nodes:
                if isinstance(node, Stage) and node.buffer == name:
                    result += new
                else:
                    result.append(node.with_body(*rewrite(node.body)) if isinstance(node, (Loop, Stage)) else node)
            return tuple(result)

        self.body = rewrite(self.body)

    def replace_buffer(
        self, new: Buffer, index: Callable[[tuple[Index, ...]], tuple[Index, ...]] = lambda indices: indices
    ) -> None:
        """Replace the buffer of the same name in every access, and the indices of these."""
        def change(access: Access) -> Access:
            if access.buffer.name != new.name:
                return access
            return replace(access, buffer=new, indices=index(access.indices))

        self.body = map_assigns(self.body, change)

    @property
    def body(self) -> tuple[Node, ...]:
        """The nodes of the nest."""
        return self.nest.body

    @body.setter
    def body(self, nodes: tuple[Node, ...]) -> None:
        self.nest = replace(self.nest, body=nodes)

    def copy(self, nodes: tuple[Node, ...], also: Iterable[str] = ()) -> tuple[tuple[Node, ...], dict[str, str]]:
        """Return a copy of nodes with new names for their loops and stages, and what each became.

        `also` are further variables to rename.
        """
        names = {name: self.fresh(name) for name in (*also, *variables_of(nodes))}
        buffers = {stage.buffer: self.fresh(stage.buffer) for stage in stages_of(nodes)}
        copied = substitute(nodes, {old: (new,) for old, new in names.items()}, buffers)
        return copied, {**names, **buffers}


def substitute(
    nodes: tuple[Node, ...], names: Renaming, buffers: Mapping[str, str] | None = None
) -> tuple[Node, ...]:
    """Replace loop variables by sums of others, and buffers by others of the same shape."""
    buffers = buffers or {}

    def index(entry: Index) -> Index:
        return tuple(new for name in entry for new in names.get(name, (name,)))

    def only(name: str) -> str:
        return names.get(name, (name,))[0]

    def access(entry: Access) -> Access:
        buffer = entry.buffer
        if buffer.name in buffers:
            buffer = replace(buffer, name=buffers[buffer.name])
        return replace(entry, buffer=buffer, indices=tuple(map(index, entry.indices)))

    def derived(entry: Derived) -> Derived:
        return replace(entry, variable=only(entry.variable), index=index(entry.index))

    def rewrite(node: Node) -> Node:
        match node:
            case Assign(target, value, _, _, scale):
                scale = None if scale is None else map_accesses(scale, access)
                return replace(node, target=access(target), value=map_accesses(value, access), scale=scale)
            case Stage(buffer, source):
                new = replace(node, buffer=buffers.get(buffer, buffer), source=buffers.get(source, source))
                return new.with_body(*map(rewrite, node.body))
            case Loop():
                guards = tuple((index(entry), bound) for entry, bound in node.guards)
                inner = tuple(map(derived, node.derived))
                new_loop = replace(node, variable=only(node.variable), guards=guards, derived=inner)
                return new_loop.with_body(*map(rewrite, node.body))
            case Synchronize():
                return node

    return tuple(map(rewrite, nodes))

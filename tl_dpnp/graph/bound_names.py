"""The names that the statements of one scope bind, as Python's compiler finds them."""

from __future__ import annotations

import ast
from typing import Any

from tl_dpnp.records import dataclass

__all__ = ["BoundNames"]


@dataclass
class BoundNames(ast.NodeVisitor):
    """The names that the statements of one scope bind; `outside` are those of outer scopes that they assign."""

    names: set[str]
    outside: set[str]
    declared: list[tuple[str, int]]

    @classmethod
    def of(cls, nodes: list[Any]) -> BoundNames:
        found = cls(set(), set(), [])
        for node in nodes:
            found.visit(node)
        return found

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def _declaration(self, node: Any) -> None:
        self.outside.update(node.names)
        self.declared += [(name, node.lineno) for name in node.names]

    visit_Global = visit_Nonlocal = _declaration

    def _definition(self, node: Any) -> None:
        self.names.add(node.name)
        for name, value in ast.iter_fields(node):
            if name != "body":  # a scope of its own; all else belongs to the scope around it
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, ast.AST):
                        self.visit(part)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """A scope of its own, but for defaults."""
        self.visit(node.args)

    def _comprehension(self, node: Any) -> None:
        """A scope of its own, but for walruses."""
        if isinstance(node, ast.NamedExpr):
            self.visit(node.target)
        for inner in ast.iter_child_nodes(node.args if isinstance(node, ast.Lambda) else node):
            self._comprehension(inner)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_alias(self, node: ast.alias) -> None:
        self.names.add(node.asname or node.name.split(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self.names.add(node.name)
        self.generic_visit(node)

    def _pattern(self, node: Any) -> None:
        for field in ("name", "rest"):
            if getattr(node, field, None) is not None:
                self.names.add(getattr(node, field))
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = _pattern

"""Who may import what, beyond the layers that import-linter checks."""

import ast
import functools
import graphlib
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[2] / "tl_dpnp"
SOURCES = sorted(PACKAGE.rglob("*.py"))

#: The only modules that may import a package, or touch its private parts; relative to the package.
ADAPTERS = {
    "numba_dpex": {"runtime/sycl/numba_dpex_adapter.py", "runtime/system_info.py"},
}


@functools.cache
def tree_of(path):
    """Return the syntax tree of a source: parsing all takes longer than what is looked for in them."""
    return ast.parse(path.read_text())


@pytest.fixture(scope="module", autouse=True)
def _free_the_trees():
    yield
    tree_of.cache_clear()


def imported(tree):
    """Yield the top-level package of every import in a module, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((name.name.split(".")[0], node.lineno) for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.split(".")[0], node.lineno


def relative(path):
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("package", ADAPTERS)
def test_adapters_alone_import_what_they_adapt(package):
    found = {
        f"{relative(path)}:{line}"
        for path in SOURCES
        for name, line in imported(tree_of(path))
        if name == package and relative(path) not in ADAPTERS[package]
    }
    assert not found


def test_one_module_knows_where_the_arrays_of_dpctl_are():
    """They moved to dpnp; who imports them from either place runs with some versions only."""
    places = ("dpctl.tensor", "dpnp.tensor")
    found = {f"{relative(path)} {name}" for path in SOURCES for name in imports_when_run(tree_of(path))
             if name.startswith(places)}
    assert not found


def test_one_module_knows_what_is_private_to_lark():
    """Its documented interface is the package itself, and the base class of what stands between lexer and parser."""
    found = {(relative(path), name) for path in SOURCES for name in imports_when_run(tree_of(path))
             if name.startswith("lark.") and name.count(".") > 1}
    assert {path for path, name in found if not name.startswith("lark.lark.")} == {"language/lark_adapter.py"}
    private = ("parser_state", "lexer_thread", "parse_table", "node_builder", "value_stack", "interactive_parser")
    users = {relative(path) for path in SOURCES for node in ast.walk(tree_of(path))
             if isinstance(node, ast.Attribute) and node.attr in private}
    assert users <= {"language/lark_adapter.py"}


@pytest.mark.parametrize("layer", ["language", "kernels", "lowering"])
def test_lower_layers_know_no_device_runtime(layer):
    found = {
        f"{relative(path)}:{line} {name}"
        for path in (PACKAGE / layer).rglob("*.py")
        for name, line in imported(tree_of(path))
        if name in ("dpctl", "dpnp", "numba", "numba_dpex")
    }
    assert not found


def test_private_attributes_of_device_packages_stay_in_adapters():
    """A dpctl or dpnp object's private attribute is one that no class of ours defines."""
    own = {"_fields", "_make", "_replace"}  # of named tuples, where they are public
    used = []
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.Attribute(value=value, attr=name) if name.startswith("_") and not name.endswith("__"):
                    of_self = isinstance(value, ast.Name) and value.id in ("self", "cls", "sys", "os")
                    if isinstance(node.ctx, ast.Store) or of_self:
                        own.add(name)
                    else:
                        used.append((relative(path), node.lineno, name))
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    own.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    own.add(name)
    foreign = [f"{path}:{line} {name}" for path, line, name in used if name not in own and "adapter" not in path]
    assert not foreign


def test_files_stay_readable():
    lengths = {relative(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert not {path: lines for path, lines in lengths.items() if lines > 600}


def test_functions_stay_readable():
    """Their documentation counts: what takes a page to use does too much."""
    lengths = {f"{relative(path)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
               for path in SOURCES for node in ast.walk(tree_of(path))
               if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert lengths
    assert not {name: lines for name, lines in lengths.items() if lines > 60}


def imports_when_run(tree):
    """Yield the imports of a module and of its functions, but for those that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=otherwise):
                for other in otherwise:
                    yield from imports_when_run(other)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from (f"{module}.{name.name}" for name in names)
                yield module
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case _:
                yield from imports_when_run(node)


@pytest.mark.parametrize("folder", ["language", "kernels", "lowering", "runtime", "graph"])
def test_no_modules_import_one_another_in_a_circle(folder):
    """Imports inside functions count: they only put a circle off until the function is called."""
    modules = {".".join(("tl_dpnp", *path.relative_to(PACKAGE).with_suffix("").parts)): path
               for path in (PACKAGE / folder).rglob("*.py") if path.stem != "__init__"}
    graph = {module: {name for name in imports_when_run(tree_of(path))
                      if name in modules and name != module} for module, path in modules.items()}
    assert any(graph.values())
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the circle

"""The structure of the code: every module of the product is used by a command or by the library."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_TOP = Path(__file__).parent.parent / "weft"
_ENTRIES = ("weft.loom", "weft.__main__", "weft.cli")


@cache
def _modules() -> dict[str, Path]:
    paths = {".".join(path.relative_to(_TOP.parent).with_suffix("").parts): path for path in _TOP.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in paths.items()}


@cache
def _imported(module: str) -> frozenset[str]:
    tree = ast.parse(_modules()[module].read_text(encoding="utf-8"))
    return frozenset(found for name in _names(tree) if (found := _module_of(name)) and found != module)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "weft has absolute imports only"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module_of(name: str) -> str:
    """The module that a dotted name is, or is in; nothing if that is not a module of weft."""
    while name and name not in _modules():
        name = name.rpartition(".")[0]
    return name


def test_every_module_is_reached_from_a_command_or_from_loom() -> None:
    reached: set[str] = set()
    waiting = [name for name in _modules() if name.startswith(_ENTRIES)]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += [*_imported(module), module.rpartition(".")[0]] if "." in module else _imported(module)
    packages = {name for name, path in _modules().items() if path.name == "__init__.py"}
    assert set(_modules()) - reached - packages == set()

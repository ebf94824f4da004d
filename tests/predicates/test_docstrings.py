from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import weft.predicates

MODULES = [each.name for each in pkgutil.iter_modules(weft.predicates.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"weft.predicates.{name}")).failed == 0


def test_there_are_examples_in_docstrings() -> None:
    modules = [importlib.import_module(f"weft.predicates.{name}") for name in MODULES]
    assert sum(doctest.testmod(each).attempted for each in modules) > 10


def test_the_map_names_every_file() -> None:
    listed = {line.split()[0] for line in (weft.predicates.__doc__ or "").splitlines() if ".py " in line}
    assert listed == {f"{name}.py" for name in MODULES}

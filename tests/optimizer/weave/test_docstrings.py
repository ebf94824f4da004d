from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import iter_modules

import pytest

import weft.optimizer.weave


@pytest.mark.parametrize("name", [module.name for module in iter_modules(weft.optimizer.weave.__path__)])
def test_examples_in_docstrings(name: str) -> None:
    failures, _ = doctest.testmod(import_module(f"weft.optimizer.weave.{name}"))
    assert failures == 0

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import iter_modules

import pytest

import weft.optimizer


@pytest.mark.parametrize("name", [module.name for module in iter_modules(weft.optimizer.__path__)])
def test_examples_in_docstrings(name: str) -> None:
    failures, _ = doctest.testmod(import_module(f"weft.optimizer.{name}"))
    assert failures == 0

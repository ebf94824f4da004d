from __future__ import annotations

import doctest

import pytest

from lab.weaving import inclusion_exclusion
from weft.windows import counting, join_windows, slicing


@pytest.mark.parametrize(
    "module",
    [counting, join_windows, slicing, inclusion_exclusion],
    ids=lambda m: m.__name__,
)
def test_examples_in_docstrings(module: object) -> None:
    failures, attempts = doctest.testmod(module)  # type: ignore[arg-type]
    assert attempts > 0
    assert failures == 0

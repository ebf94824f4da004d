"""Fixtures of the set operators' tests."""

from __future__ import annotations

import pytest

from weft.runtime.stages.sets import set_operators


@pytest.fixture
def forgetting_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators look for values that they can forget from the second value on."""
    monkeypatch.setattr(set_operators, "_FEWEST", 2)

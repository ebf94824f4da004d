"""Fixtures of the set operators' tests."""

from __future__ import annotations

import pytest

from weft.runtime.stages.sets import history_operator as history


@pytest.fixture
def forgetting_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators look for values that they can forget from the second value on."""
    monkeypatch.setattr(history, "_FEWEST", 2)

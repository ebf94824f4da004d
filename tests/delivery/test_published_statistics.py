"""What is learnt from published rows, and what groups make of it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.optimizer.group_results.drawn import bound
from weft.delivery.control import PublishedStatistics
from weft.optimizer.group_results import Groups


def test_widths_and_values_are_those_of_published_rows() -> None:
    relation = bound("g1", "SELECT sym, qty, price * 2 AS twice FROM trades").relation
    observed = PublishedStatistics()
    texts = ["a" * 100, "b" * 100]
    observed.rows(relation, pa.table({"sym": texts, "qty": [1, 2], "twice": [0.5, None]}))
    found = observed.statistics({"trades": 0.25})
    assert found.rates == {"trades": 0.25}
    assert found.widths["trades.qty"] == 8.0
    assert found.widths["trades.sym"] >= 100.0
    assert "trades.twice" not in found.widths
    assert found.values == {"trades.sym": texts, "trades.qty": [1, 2]}
    # A representative that shows less of the stream does not take the place of what is known.
    observed.rows(bound("g2", "SELECT qty FROM trades").relation, pa.table({"qty": [7]}))
    assert observed.statistics({}).values["trades.qty"] == [1, 2]


def test_columns_with_nulls_tell_nothing_of_conditions() -> None:
    relation = bound("g1", "SELECT sym, qty FROM trades").relation
    observed = PublishedStatistics()
    observed.rows(relation, pa.table({"sym": ["a", "b"], "qty": [1, None]}))
    assert observed.statistics({}).values == {"trades.sym": ["a", "b"]}


@pytest.mark.parametrize(("wide", "groups"), [(1.0, 1), (1_000.0, 2)])
def test_a_wide_column_that_only_one_wants_keeps_two_apart(wide: float, groups: int) -> None:
    """What a broker carries has the columns of all: merging does not pay if one of them is wide and rarely wanted."""
    observed = PublishedStatistics(widths={"trades.sym": wide})
    found = Groups(observed.statistics({"trades": 1.0}))
    found.insert("all", bound("all", "SELECT qty FROM trades WHERE qty > 0"))
    found.insert("few", bound("few", "SELECT qty, sym FROM trades WHERE qty > 1000"))
    assert len(found.names()) == groups

"""Settings, statistics, plan versions and requests."""

from __future__ import annotations

import math

import pytest

from tests.catalog.examples import selection
from weft.catalog import Catalog, CycleStatistics, Request
from weft.catalog.catalog_errors import CatalogError


def test_settings_keep_their_value_and_its_type(catalog: Catalog) -> None:
    assert catalog.setting("sharing") is None
    assert catalog.setting("sharing", True) is True
    catalog.set_setting("Sharing", False)
    catalog.set_setting("budget", 1.5)
    catalog.set_setting("budget", 2)
    catalog.set_setting("master", "local[*]")
    assert catalog.setting("SHARING", True) is False
    assert catalog.settings().stored == {"budget": 2, "master": "local[*]", "sharing": False}


def test_statistics_are_kept_by_key_and_cycle(catalog: Catalog) -> None:
    catalog.record_statistics(1, {"stream:trades": {"rows": 10, "seconds": 0.5}, "node:1": {"rows": 7}})
    catalog.record_statistics(2, {"stream:trades": {"rows": 20, "seconds": math.inf}})
    catalog.record_statistics(3, {"stream:trades": {"rows": 0}})
    catalog.record_statistics(2, {"stream:trades": {"rows": 21}})
    assert [each.numbers["rows"] for each in catalog.statistics("stream:trades")] == [10, 21, 0]
    assert catalog.statistics("stream:trades", since=3) == (CycleStatistics("stream:trades", 3, {"rows": 0}),)
    assert catalog.statistics("stream:Trades") == ()
    assert catalog.latest_statistics() == {
        "stream:trades": CycleStatistics("stream:trades", 3, {"rows": 0}),
        "node:1": CycleStatistics("node:1", 1, {"rows": 7}),
    }


def test_statistics_are_kept_for_so_many_cycles(catalog: Catalog) -> None:
    for cycle in range(10):
        catalog.record_statistics(cycle, {"a": {"rows": cycle}, "b": {}}, keep=3)
    assert [each.cycle for each in catalog.statistics("a")] == [7, 8, 9]
    assert [each.cycle for each in catalog.statistics("b")] == [7, 8, 9]
    catalog.record_statistics(9, {"a": {"rows": 90}}, keep=3)
    assert [each.numbers["rows"] for each in catalog.statistics("a")] == [7, 8, 90]


def test_cycles_that_are_counted_anew_leave_nothing_of_the_old_ones(catalog: Catalog) -> None:
    for cycle in (*range(10), *range(3)):
        catalog.record_statistics(cycle, {"a": {"rows": cycle}}, keep=5)
    assert [each.cycle for each in catalog.statistics("a")] == [0, 1, 2]
    assert catalog.latest_statistics() == {"a": CycleStatistics("a", 2, {"rows": 2})}


def test_forgetting_and_recording_happen_together_or_not_at_all(catalog: Catalog) -> None:
    catalog.record_statistics(1, {"a": {"rows": 1}}, keep=1)
    with pytest.raises(TypeError):
        catalog.record_statistics(2, {"a": {"rows": 2}, "b": {"rows": object()}}, keep=1)  # type: ignore[dict-item]
    assert catalog.latest_statistics() == {"a": CycleStatistics("a", 1, {"rows": 1})}


def test_statistics_may_be_infinite_or_nan(catalog: Catalog) -> None:
    catalog.record_statistics(1, {"a": {"x": math.inf, "y": math.nan}})
    (recorded,) = catalog.statistics("a")
    assert recorded.numbers["x"] == math.inf
    assert math.isnan(recorded.numbers["y"])


def test_plans_are_appended(catalog: Catalog) -> None:
    assert catalog.latest_plan() is None
    catalog.append_plan(1, selection())
    catalog.append_plan(5, (selection(), 2))
    assert catalog.plan(1) == selection()
    assert catalog.latest_plan() == (selection(), 2)
    for number in (5, 3):
        with pytest.raises(CatalogError, match=rf"plan {number} .*: its latest is 5; number it above that"):
            catalog.append_plan(number, ())
    with pytest.raises(CatalogError, match="there is no plan 2"):
        catalog.plan(2)


def test_what_cannot_be_read_is_named(catalog: Catalog) -> None:
    catalog.append_plan(1, ())
    catalog.set_setting("a", 1)
    catalog.record_statistics(1, {"k": {}})
    for table, column in (("plans", "plan"), ("settings", "value"), ("statistics", "numbers")):
        catalog._database.execute(f"UPDATE {table} SET {column} = '[[\"Unheard\"]]'")
    with pytest.raises(CatalogError, match="plan 1: "):
        catalog.plan(1)
    with pytest.raises(CatalogError, match="setting 'a': "):
        catalog.settings()
    with pytest.raises(CatalogError, match="statistics of 'k': "):
        catalog.latest_statistics()


def test_requests_wait_in_order_until_they_are_answered(catalog: Catalog) -> None:
    with Catalog.open(catalog.path.parent, write=False) as reader:
        first, second = reader.submit("one"), catalog.submit("two")
        assert catalog.pending() == reader.pending()
        assert [each.script for each in catalog.pending()] == ["one", "two"]
        catalog.answer(first, "line 1: what?")
        assert reader.request(first) == Request(first, "one", "line 1: what?")
        assert catalog.pending() == (Request(second, "two", None),)


def test_a_request_is_answered_once(catalog: Catalog) -> None:
    number = catalog.submit("one")
    catalog.answer(number, "done")
    with pytest.raises(CatalogError, match=f"request {number} .* answered"):
        catalog.answer(number, "again")
    with pytest.raises(CatalogError, match="no request 99"):
        catalog.answer(99, "")
    assert catalog.request(number).answer == "done"


def test_a_request_is_withdrawn_before_its_answer_or_not_at_all(catalog: Catalog) -> None:
    with Catalog.open(catalog.path.parent, write=False) as reader:
        first, second = reader.submit("one"), reader.submit("two")
        assert reader.withdraw(first)
        with pytest.raises(CatalogError, match=f"no request {first} .* withdrawn"):
            catalog.answer(first, "done")
        catalog.answer(second, "done")
        assert not reader.withdraw(second)
        assert reader.request(second).answer == "done"
        reader.delete_request(second)
        with pytest.raises(CatalogError, match="there is no request"):
            reader.request(second)


def test_answers_that_are_not_read_are_deleted_after_an_hour(catalog: Catalog) -> None:
    old, new, last = (catalog.submit("…") for _ in range(3))
    for number in (old, new):
        catalog.answer(number, "done")
    catalog._database.execute("UPDATE requests SET answered = answered - 4000 WHERE id = ?", (old,))
    catalog.answer(last, "done")
    assert catalog.request(new).answer == "done"
    with pytest.raises(CatalogError, match="there is no request"):
        catalog.request(old)

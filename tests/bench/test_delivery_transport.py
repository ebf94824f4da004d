"""The workload of delivery over NATS is what the benchmark says it is."""

from __future__ import annotations

from bench.delivery_transport.workload import members, rows
from weft.delivery.itinerary import needed


def test_members_are_many_queries_of_few_templates_over_what_is_published() -> None:
    routes = members(1000)
    assert members(1000) == routes
    assert len({route.query for route in routes}) == 1000
    shapes = {tuple((each.column, each.op) for each in route.subscriptions[0].any_of[0]) for route in routes}
    assert len(shapes) == 4
    published = {each.group: set(each.rows.column_names) for each in rows(3, 10)}
    asked: dict[str, set[str]] = {group: set() for group in published}
    for route in routes:
        for subscription, span in route.legs:
            asked[subscription.stream] |= needed(subscription, span)
    # Nothing is published that nobody needs: what edges receive would look larger than it is.
    assert asked == published


def test_a_cycle_publishes_the_same_rows_each_time() -> None:
    assert [each.rows for each in rows(3, 50)] == [each.rows for each in rows(3, 50)]
    assert [each.rows for each in rows(3, 50)] != [each.rows for each in rows(4, 50)]

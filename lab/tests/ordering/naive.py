"""Joins as anyone would write them down: all combinations of rows, all conditions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from lab.ordering.join_graph import JoinGraph, stream_of
from lab.ordering.setting import Feed


def naive_join(graph: JoinGraph, feeds: Mapping[str, Feed]) -> list[tuple[int, ...]]:
    """Rows of all streams, in the order of their names, that meet every condition and all windows at some instant."""
    streams = sorted(graph.streams)
    found = []
    for rows in product(*(range(len(feeds[stream])) for stream in streams)):
        row = dict(zip(streams, rows, strict=True))

        def value(attribute: str, row: dict[str, int] = row) -> int:
            stream = stream_of(attribute)
            return feeds[stream].values[attribute.partition(".")[2]][row[stream]]

        conditions = (*graph.joins, *graph.selections)
        if all(value(join.left) == value(join.right) for join in conditions) and _meet(feeds, row):
            found.append(rows)
    return sorted(found)


def _meet(feeds: Mapping[str, Feed], row: Mapping[str, int]) -> bool:
    """Whether all rows are in their windows when the last of them comes."""
    came = {stream: _instant(feeds[stream], at) for stream, at in row.items()}
    last = max(came.values())
    return all(
        window is None or last - instant < window
        for stream, instant in came.items()
        for window in [feeds[stream].window]
    )


def _instant(feed: Feed, row: int) -> int:
    return 0 if feed.instants is None else feed.instants[row]

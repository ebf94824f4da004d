"""A row is late for a representative of aggregates just when it is late for all of its members."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optimizer.group_results.drawn import bound
from weft.algebra import Select, Window
from weft.optimizer.group_results import Groups

RANGE = 12


def is_late(window: Window, clock: int, watermark: int) -> bool:
    """Whether the last instance that covers a row has closed."""
    assert window.range is not None
    into = (clock - window.origin) % window.slide
    return clock - into + window.range <= watermark


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from((1, 2, 3, 4, 6, 8, 12)), min_size=1, max_size=8), st.integers(0, 40))
def test_a_representative_is_late_when_all_its_members_are(slides: list[int], watermark: int) -> None:
    groups = Groups()
    windows = []
    for number, slide in enumerate(slides):
        text = f"SELECT sym, SUM(qty) AS s FROM trades [ROWS {RANGE} SLIDE {slide}] GROUP BY sym"
        query = bound(f"q{number}", text)
        assert query.relation.window is not None
        windows.append(query.relation.window)
        groups.insert(query.name, query)
    parts = [part.query.relation for name in groups.names() for part in groups.representative(name).parts]
    evaluated = [part.window for part in parts if isinstance(part, Select) and part.window is not None]
    assert len(evaluated) == len(parts)
    for clock in range(watermark + RANGE):
        alone = all(is_late(each, clock, watermark) for each in windows)
        assert all(is_late(each, clock, watermark) for each in evaluated) == alone

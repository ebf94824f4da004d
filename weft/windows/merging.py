"""Windows that contain two others: what a join that answers two queries has to keep.

Ranges are the larger ones. The slide depends on how late a combination may appear (`containment`):

    (a) never late      every instant of both is an instant
    (b) a little late   the largest slide of a few candidates for which both are contained, and late by no more
    (c) any slide       the ranges grow by the longest wait: more rows are kept, and instants are as rare as one likes
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from weft.windows.containment import JoinWindows, contains_windows, delay, max_gap


def merge_timely(left: JoinWindows, right: JoinWindows) -> JoinWindows:
    """The windows with all instants of two others, and no more than that needs. (a)

    >>> merge_timely(JoinWindows((10, 9), slide=4), JoinWindows((4, 3), slide=6))
    JoinWindows(ranges=(10, 9), slide=2, origin=0, begins=False)
    """
    slide = gcd(left.slide, right.slide, left.origin - right.origin)
    return _with(left, right, slide, min(left.origin, right.origin))


def merge_within(left: JoinWindows, right: JoinWindows, most_delay: int) -> JoinWindows:
    """The windows with the largest slide that contain both and are late by no more than some ticks. (b)

    >>> merge_within(JoinWindows((10, 9), slide=4), JoinWindows((4, 3), slide=6), most_delay=2)
    JoinWindows(ranges=(10, 9), slide=4, origin=0, begins=False)
    """
    for merged in _candidates(left, right):
        if all(contains_windows(each, merged) and delay(each, merged) <= most_delay for each in (left, right)):
            return merged
    return merge_timely(left, right)


def _candidates(left: JoinWindows, right: JoinWindows) -> Iterator[JoinWindows]:
    common = gcd(left.slide, right.slide)
    by_input = (
        _candidate_of_input(left, right, here, there, common)
        for here, there in zip(left.ranges, right.ranges, strict=True)
    )
    slides = {left.slide, right.slide, common, gcd(*by_input)}
    for slide in sorted(slides, reverse=True):
        for origin in sorted({left.origin, right.origin}):
            yield _with(left, right, slide, origin)


def _candidate_of_input(left: JoinWindows, right: JoinWindows, here: int, there: int, common: int) -> int:
    """The printed rule: in step with the larger range, which has no slack; in step with both if the other has not
    enough of it either."""
    if here == there:
        return common
    slide = left.slide if here > there else right.slide
    return slide if slide <= abs(here - there) else common


def merge_widened(left: JoinWindows, right: JoinWindows, slide: int, origin: int) -> JoinWindows:
    """The windows with a given slide and origin that contain both, because they reach further back. (c)

    >>> merge_widened(JoinWindows((10, 9), slide=4), JoinWindows((4, 3), slide=6), slide=12, origin=0)
    JoinWindows(ranges=(18, 17), slide=12, origin=0, begins=False)
    """
    bare = _with(left, right, slide, origin)
    ranges = (
        max(here + max_gap(left, bare), there + max_gap(right, bare))
        for here, there in zip(left.ranges, right.ranges, strict=True)
    )
    return JoinWindows(tuple(ranges), slide, origin, bare.begins)


def _with(left: JoinWindows, right: JoinWindows, slide: int, origin: int) -> JoinWindows:
    ranges = tuple(max(pair) for pair in zip(left.ranges, right.ranges, strict=True))
    return JoinWindows(ranges, slide, origin, left.begins and right.begins)

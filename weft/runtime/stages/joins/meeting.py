"""How far apart the clocks of the legs of a family's rows can be, and so when its rows are of no more use.

It is taken from the selects that read the rows, not from the nodes: a node may be weaker than those that share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.algebra import Input, Select, Source, Table
from weft.plan.event_time import Clock, EventTime
from weft.runtime.stages.joins.families import Family
from weft.windows.join_windows import Bounds, meeting_bounds


@dataclass(frozen=True)
class Use:
    """A select that needs the rows of a node in a family: the family's leg i is its input `inputs[i]`."""

    select: Select
    inputs: tuple[int, ...]
    #: The first cycle whose rows the select sees.
    first: int
    bounds: Bounds

    @property
    def awaited(self) -> tuple[tuple[int, Input], ...]:
        """The other inputs of the select, by number, as far as they flow: rows of theirs are still to meet these."""
        return tuple(
            (number, each)
            for number, each in enumerate(self.select.inputs)
            if number not in self.inputs and not isinstance(each.source, Table)
        )


def uses_below(family: Family, node: int, use: Use) -> Iterator[tuple[Family, int, Use]]:
    """A use of a node, and what follows from it for the nodes that it is made of."""
    yield family, node, use
    member = family.nodes[node]
    if len(member.parents) == 1:
        yield from uses_below(family, member.parents[0], use)
    elif family.sides is not None:
        for side, parent, first_leg in zip(family.sides, member.parents, family.first_legs, strict=True):
            inputs = use.inputs[first_leg : first_leg + len(side.legs)]
            yield from uses_below(side, parent, Use(use.select, inputs, use.first, use.bounds))


def use_of(select: Select, legs: tuple[int, ...], first: int) -> Use:
    """A select whose input i is a node's leg `legs[i]`."""
    inputs = tuple(legs.index(leg) for leg in range(len(legs)))
    return Use(select, inputs, first, meeting_bounds(select.inputs, select.where))


def reach_of(uses: Iterable[Use]) -> dict[Source, int | None]:
    """How much newer than a row what it meets can be, by what that is read from; None if there is no limit.

    The clock of a row is the largest of its legs', and what it meets must meet all of them.
    """
    reach: dict[Source, int | None] = {}
    for use in uses:
        for other, item in use.awaited:
            limits = [use.bounds[own][other] for own in use.inputs]
            nearest = min((limit for limit in limits if limit is not None), default=None)
            known = reach.get(item.source, nearest)
            reach[item.source] = None if nearest is None or known is None else max(known, nearest)
    return reach


def needed_since(reach: Mapping[Source, int | None], event_time: EventTime) -> Clock:
    """The least clock of a row that is still needed: some row that is on time could meet it. None if all are."""
    least: list[int] = []
    for source, ticks in reach.items():
        watermark = event_time.watermark(source)
        if watermark is None or ticks is None:
            return None
        least.append(watermark - ticks)
    return min(least, default=None)


@dataclass(frozen=True)
class Band:
    """The right leg's clock less the left leg's clock lies between `low` and `high` in every row that is needed."""

    left: int
    right: int
    low: int
    high: int

    @property
    def width(self) -> int:
        return self.high - self.low + 1


def band_of(family: Family, uses: Iterable[Use]) -> Band | None:
    """The narrowest band that the rows of a join lie in, for one leg of either side; None if there is none."""
    _, first_right = family.first_legs
    listed = list(uses)
    pairs = [(left, right) for left in range(first_right) for right in range(first_right, len(family.legs))]
    bands = [band for pair in pairs if (band := band_between(*pair, listed)) is not None]
    return min(bands, key=lambda band: (band.width, band.left, band.right), default=None)


def band_between(left: int, right: int, uses: Sequence[Use]) -> Band | None:
    """The narrowest band that two legs of all rows lie in that somebody needs; None if there is none."""
    highs = [use.bounds[use.inputs[left]][use.inputs[right]] for use in uses]
    lows = [use.bounds[use.inputs[right]][use.inputs[left]] for use in uses]
    if None in highs or None in lows or not uses:
        return None
    low, high = -max(each for each in lows if each is not None), max(h for h in highs if h is not None)
    return Band(left, right, low, max(low, high))

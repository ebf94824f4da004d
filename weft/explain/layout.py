"""Where the boxes of a picture go: columns from left to right, and in each column an order with few crossings.

A box stands one column right of what it is made from; queries stand in the last one. An arrow that passes columns gets
a place in each of them, like a thin box, so that it goes between boxes and not through them. Boxes are drawn to the
middle of their neighbours, column by column, from the left, from the right, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from weft.explain.drawing import QUERIES, Drawing

#: Between boxes of a column, between arrows that pass it, and between columns.
_BETWEEN, _BETWEEN_ARROWS, _BETWEEN_COLUMNS = 16.0, 7.0, 70.0
_SWEEPS = 4


@dataclass
class _Slot:
    """A box, or the place of an arrow that passes a column."""

    column: int
    height: float
    is_box: bool = True
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    top: float = 0.0

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


@dataclass(frozen=True)
class Layout:
    """The left upper corner of every box, the points that each arrow passes, and the size of it all."""

    corners: Mapping[str, tuple[float, float]]
    paths: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def layout(drawing: Drawing, box_width: float, heights: Mapping[str, float]) -> Layout:
    """A place for every box and arrow."""
    columns = _columns(drawing)
    slots = {box.key: _Slot(columns[box.key], heights[box.key]) for box in drawing.boxes}
    ways: list[list[str]] = []
    for number, arrow in enumerate(drawing.arrows):
        way = [arrow.start]
        for column in range(columns[arrow.start] + 1, columns[arrow.end]):
            key = f"arrow {number} in {column}"
            slots[key] = _Slot(column, 0.0, is_box=False)
            way.append(key)
        way.append(arrow.end)
        for left, right in pairwise(way):
            slots[left].after.append(right)
            slots[right].before.append(left)
        ways.append(way)
    _arrange(slots)
    step = box_width + _BETWEEN_COLUMNS
    corners = {box.key: (slots[box.key].column * step, slots[box.key].top) for box in drawing.boxes}
    paths = tuple(_path([slots[key] for key in way], step, box_width) for way in ways)
    width = max((x for x, _ in corners.values()), default=0.0) + box_width
    height = max((slot.top + slot.height for slot in slots.values()), default=0.0)
    return Layout(corners, paths, width, height)


def _columns(drawing: Drawing) -> dict[str, int]:
    columns = {box.key: 0 for box in drawing.boxes}
    for box in drawing.boxes:
        for arrow in drawing.arrows:
            if arrow.end == box.key:
                columns[box.key] = max(columns[box.key], columns[arrow.start] + 1)
    last = max(columns.values(), default=0)
    return {box.key: last if box.kind == QUERIES else columns[box.key] for box in drawing.boxes}


def _path(way: Sequence[_Slot], step: float, box_width: float) -> tuple[tuple[float, float], ...]:
    points = [(way[0].column * step + box_width, way[0].middle)]
    for slot in way[1:-1]:
        points += [(slot.column * step, slot.middle), (slot.column * step + box_width, slot.middle)]
    points.append((way[-1].column * step, way[-1].middle))
    return tuple(points)


def _arrange(slots: dict[str, _Slot]) -> None:
    """Gives every slot its place."""
    by_column: dict[int, list[_Slot]] = {}
    for slot in slots.values():
        by_column.setdefault(slot.column, []).append(slot)
    for column in by_column.values():
        _stack(column, {id(slot): 0.0 for slot in column})
    order = sorted(by_column)
    for sweep in range(_SWEEPS):
        is_forward = sweep % 2 == 0
        for number in order if is_forward else reversed(order):
            column = by_column[number]
            wanted = {}
            for slot in column:
                keys = (slot.before if is_forward else slot.after) or slot.after or slot.before
                middles = [slots[key].middle for key in keys]
                wanted[id(slot)] = sum(middles) / len(middles) if middles else slot.middle
            _stack(column, wanted)
    least = min((slot.top for slot in slots.values()), default=0.0)
    for slot in slots.values():
        slot.top -= least


def _stack(column: list[_Slot], wanted: Mapping[int, float]) -> None:
    """Puts the slots of a column above each other, as near to where they want to be as room allows.

    Slots that would overlap are moved together, as one, to the middle of what they want.
    """
    column.sort(key=lambda slot: wanted[id(slot)])
    #: Groups of slots that touch: the first and last of them, where the group wants its top, and its height.
    groups: list[tuple[list[_Slot], list[float], float]] = []
    for slot in column:
        group = ([slot], [wanted[id(slot)] - slot.height / 2], slot.height)
        while groups and _top(groups[-1]) + groups[-1][2] + _gap(groups[-1][0][-1], group[0][0]) > _top(group):
            members, tops, height = groups.pop()
            offset = height + _gap(members[-1], group[0][0])
            group = (members + group[0], tops + [each - offset for each in group[1]], offset + group[2])
        groups.append(group)
    for members, tops, _ in groups:
        top = sum(tops) / len(tops)
        for place, slot in enumerate(members):
            if place:
                top += members[place - 1].height + _gap(members[place - 1], slot)
            slot.top = top


def _top(group: tuple[list[_Slot], list[float], float]) -> float:
    return sum(group[1]) / len(group[1])


def _gap(upper: _Slot, lower: _Slot) -> float:
    return _BETWEEN if upper.is_box or lower.is_box else _BETWEEN_ARROWS

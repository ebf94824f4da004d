"""Pictures of what is shared as SVG, with their own layout: nothing has to be installed to see them.

Boxes stand in columns from left to right, in each column in an order with few crossings. A box stands one column right
of what it is made from; queries stand in the last one. An arrow that passes columns gets a place in each of them, like
a thin box, so that it goes between boxes and not through them. Boxes are drawn to the middle of their neighbours,
column by column, from the left, from the right, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from weft.explain.pictures import COLOURS, QUERIES, STREAM, WIDTH, Arrow, Box, Drawing, box_lines, thickness
from weft.explain.query_text import count

_LINE, _PADDING, _MARGIN, _FOOT = 14.0, 8.0, 24.0, 22.0
_BOX_WIDTH = WIDTH * 6.1 + 2 * _PADDING
_FONT = 'font-family="Helvetica, Arial, sans-serif"'


def svg(drawing: Drawing) -> str:
    texts = {box.key: box_lines(box.lines) for box in drawing.boxes}
    heights = {key: _LINE * (1 + len(lines)) + 2 * _PADDING for key, lines in texts.items()}
    places = layout(drawing, _BOX_WIDTH, heights)
    foot = ["the more queries need it, the thicker an arrow is", *drawing.notes]
    width = max(places.width, 400.0) + 2 * _MARGIN
    height = places.height + 2 * _MARGIN + _FOOT + _LINE * len(foot)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" {_FONT} font-size="11">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<g transform="translate({_MARGIN:.0f} {_MARGIN:.0f})">',
    ]
    for arrow, path in sorted(zip(drawing.arrows, places.paths, strict=True), key=lambda each: each[0].weight):
        lines.append(_arrow(arrow, path))
    for box in drawing.boxes:
        lines += _box(box, texts[box.key], *places.corners[box.key], heights[box.key])
    for number, line in enumerate(foot):
        y = places.height + _FOOT + _LINE * number
        lines.append(f'<text x="0" y="{y:.1f}" fill="#475569">{escape(line)}</text>')
    return "\n".join([*lines, "</g>", "</svg>"])


def _arrow(arrow: Arrow, points: Sequence[tuple[float, float]]) -> str:
    """A curve that is level at every point it passes."""
    (x, y), *others = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        middle = (x + to_x) / 2
        path.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    what = count(arrow.weight, "query", "queries")
    dashes = "" if arrow.is_direct else ' stroke-dasharray="6 5"'
    return (
        f'<path d="{" ".join(path)}" fill="none" stroke="#94a3b8" stroke-opacity="0.75" '
        f'stroke-width="{thickness(arrow.weight):.1f}"{dashes}><title>{what}</title></path>'
    )


def _box(box: Box, lines: Sequence[str], x: float, y: float, height: float) -> Iterator[str]:
    fill, frame = COLOURS[box.kind]
    round_ = 14 if box.kind in (STREAM, QUERIES) else 4
    bold = 2.0 if box.weight > 1 and box.kind != QUERIES else 1.0
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{_BOX_WIDTH:.1f}" height="{height:.1f}" rx="{round_}" '
        f'fill="{fill}" stroke="{frame}" stroke-width="{bold}"/>'
    )
    first = y + _PADDING + 10
    yield (f'<text x="{x + _PADDING:.1f}" y="{first:.1f}" font-weight="bold" fill="{frame}">{escape(box.title)}</text>')
    if box.kind != QUERIES:
        shared = count(box.weight, "query", "queries")
        right = x + _BOX_WIDTH - _PADDING
        yield f'<text x="{right:.1f}" y="{first:.1f}" text-anchor="end" fill="{frame}">{shared}</text>'
    for number, line in enumerate(lines, start=1):
        indent = 8 * (len(line) - len(line.lstrip()) > 0)
        style = ' font-style="italic" fill="#475569"' if line.startswith("…") else ' fill="#0f172a"'
        left = x + _PADDING + indent
        yield f'<text x="{left:.1f}" y="{first + _LINE * number:.1f}"{style}>{escape(line.strip())}</text>'


# -- layout ------------------------------------------------------------------------------------------------------------

#: Between boxes of a column, between arrows that pass it, and between columns.
_BETWEEN, _BETWEEN_ARROWS, _BETWEEN_COLUMNS = 16.0, 7.0, 70.0
_SWEEPS = 4


@dataclass(eq=False)
class _Slot:
    """A box, or the place of an arrow that passes a column, and what stands before and after it."""

    column: int
    height: float
    is_box: bool = True
    before: list[_Slot] = field(default_factory=list)
    after: list[_Slot] = field(default_factory=list)
    top: float = 0.0

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


@dataclass(frozen=True)
class PictureLayout:
    """The left upper corner of every box, the points that each arrow passes, and the size of it all."""

    corners: Mapping[str, tuple[float, float]]
    paths: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def layout(drawing: Drawing, box_width: float, heights: Mapping[str, float]) -> PictureLayout:
    columns = _columns(drawing)
    slots = {box.key: _Slot(columns[box.key], heights[box.key]) for box in drawing.boxes}
    ways: list[list[_Slot]] = []
    for arrow in drawing.arrows:
        start, end = slots[arrow.start], slots[arrow.end]
        ways.append([start, *(_Slot(column, 0.0, False) for column in range(start.column + 1, end.column)), end])
        for left, right in pairwise(ways[-1]):
            left.after.append(right)
            right.before.append(left)
    placed = [*slots.values(), *(slot for way in ways for slot in way[1:-1])]
    _arrange(placed)
    step = box_width + _BETWEEN_COLUMNS
    corners = {key: (slot.column * step, slot.top) for key, slot in slots.items()}
    width = max((x for x, _ in corners.values()), default=0.0) + box_width
    height = max((slot.top + slot.height for slot in placed), default=0.0)
    return PictureLayout(corners, tuple(_path(way, step, box_width) for way in ways), width, height)


def _columns(drawing: Drawing) -> dict[str, int]:
    columns = {box.key: 0 for box in drawing.boxes}
    for box in drawing.boxes:
        for arrow in drawing.arrows:
            if arrow.end == box.key:
                columns[box.key] = max(columns[box.key], columns[arrow.start] + 1)
    last = max(columns.values(), default=0)
    return {box.key: last if box.kind == QUERIES else columns[box.key] for box in drawing.boxes}


def _path(way: Sequence[_Slot], step: float, box_width: float) -> tuple[tuple[float, float], ...]:
    """The right side of the first slot, both sides of those that are passed, the left side of the last one."""
    sides = [(slot.column * step + right, slot.middle) for slot in way for right in (0.0, box_width)]
    return tuple(sides[1:-1])


def _arrange(slots: Sequence[_Slot]) -> None:
    by_column: dict[int, list[_Slot]] = {}
    for slot in slots:
        by_column.setdefault(slot.column, []).append(slot)
    for column in by_column.values():
        _stack(column, dict.fromkeys(column, 0.0))
    order = sorted(by_column)
    for sweep in range(_SWEEPS):
        is_forward = sweep % 2 == 0
        for number in order if is_forward else reversed(order):
            wanted = {}
            for slot in by_column[number]:
                near = (slot.before if is_forward else slot.after) or slot.after or slot.before
                wanted[slot] = sum(each.middle for each in near) / len(near) if near else slot.middle
            _stack(by_column[number], wanted)
    least = min((slot.top for slot in slots), default=0.0)
    for slot in slots:
        slot.top -= least


def _stack(column: list[_Slot], wanted: Mapping[_Slot, float]) -> None:
    """Put the slots of a column above each other, their middles as near to where they want to be as room allows.

    Slots that would overlap are moved together, as one, to the middle of what they want.
    """
    column.sort(key=wanted.__getitem__)
    #: Groups of slots that touch: these slots, where each of them wants the group's top, and the group's height.
    groups: list[tuple[list[_Slot], list[float], float]] = []
    for slot in column:
        group = ([slot], [wanted[slot] - slot.height / 2], slot.height)
        while groups and _top(groups[-1]) + groups[-1][2] + _gap(groups[-1][0][-1], group[0][0]) > _top(group):
            members, tops, height = groups.pop()
            offset = height + _gap(members[-1], group[0][0])
            group = (members + group[0], tops + [each - offset for each in group[1]], offset + group[2])
        groups.append(group)
    for group in groups:
        members = group[0]
        members[0].top = _top(group)
        for upper, lower in pairwise(members):
            lower.top = upper.top + (upper.height + _gap(upper, lower))


def _top(group: tuple[list[_Slot], list[float], float]) -> float:
    return sum(group[1]) / len(group[1])


def _gap(upper: _Slot, lower: _Slot) -> float:
    return _BETWEEN if upper.is_box or lower.is_box else _BETWEEN_ARROWS

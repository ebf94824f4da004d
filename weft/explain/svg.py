"""What is shared as an SVG picture, drawn by hand: nothing has to be installed for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from weft.explain.box_text import COLOURS, WIDTH, box_lines, thickness
from weft.explain.drawing import QUERIES, STREAM, Arrow, Box, Drawing
from weft.explain.layout import layout

_LINE, _PADDING, _MARGIN, _FOOT = 14.0, 8.0, 24.0, 22.0
_BOX_WIDTH = WIDTH * 6.1 + 2 * _PADDING
_FONT = 'font-family="Helvetica, Arial, sans-serif"'


def svg(drawing: Drawing) -> str:
    """The picture as an SVG document."""
    return "\n".join(_lines(drawing))


def _lines(drawing: Drawing) -> Iterator[str]:
    texts = {box.key: box_lines(box.lines) for box in drawing.boxes}
    heights = {key: _LINE * (1 + len(lines)) + 2 * _PADDING for key, lines in texts.items()}
    places = layout(drawing, _BOX_WIDTH, heights)
    foot = ["the more queries need it, the thicker an arrow is", *drawing.notes]
    width = max(places.width, 400.0) + 2 * _MARGIN
    height = places.height + 2 * _MARGIN + _FOOT + _LINE * len(foot)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" {_FONT} font-size="11">'
    )
    yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    yield f'<g transform="translate({_MARGIN:.0f} {_MARGIN:.0f})">'
    for arrow, path in sorted(zip(drawing.arrows, places.paths, strict=True), key=lambda each: each[0].weight):
        yield _arrow(arrow, path)
    for box in drawing.boxes:
        yield from _box(box, texts[box.key], *places.corners[box.key], heights[box.key])
    for number, line in enumerate(foot):
        y = places.height + _FOOT + _LINE * number
        yield f'<text x="0" y="{y:.1f}" fill="#475569">{escape(line)}</text>'
    yield "</g>"
    yield "</svg>"


def _arrow(arrow: Arrow, points: Sequence[tuple[float, float]]) -> str:
    """A curve that is level at every point it passes."""
    (x, y), *others = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        middle = (x + to_x) / 2
        path.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    what = f"{arrow.weight:,} {'query' if arrow.weight == 1 else 'queries'}"
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
        shared = f"{box.weight:,} {'query' if box.weight == 1 else 'queries'}"
        right = x + _BOX_WIDTH - _PADDING
        yield f'<text x="{right:.1f}" y="{first:.1f}" text-anchor="end" fill="{frame}">{shared}</text>'
    for number, line in enumerate(lines, start=1):
        indent = 8 * (len(line) - len(line.lstrip()) > 0)
        style = ' font-style="italic" fill="#475569"' if line.startswith("…") else ' fill="#0f172a"'
        left = x + _PADDING + indent
        yield f'<text x="{left:.1f}" y="{first + _LINE * number:.1f}"{style}>{escape(line.strip())}</text>'

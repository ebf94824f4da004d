"""What is shared as a graph for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from weft.explain.box_text import COLOURS, box_lines, thickness
from weft.explain.drawing import QUERIES, STREAM, Box, Drawing

_SHAPES = {STREAM: "cylinder", QUERIES: "oval"}


def dot(drawing: Drawing) -> str:
    """The graph, in the DOT language."""
    return "\n".join(_lines(drawing))


def _lines(drawing: Drawing) -> Iterator[str]:
    yield "digraph weft {"
    label = "\\n".join(_escaped(note) for note in drawing.notes)
    yield f'  graph [rankdir=LR, fontname="Helvetica", fontsize=11, labelloc=b, label="{label}"];'
    yield '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];'
    yield '  edge [color="#64748b", fontname="Helvetica", fontsize=9];'
    names = {box.key: f"b{number}" for number, box in enumerate(drawing.boxes)}
    for box in drawing.boxes:
        yield f"  {names[box.key]} [{_attributes(box)}];"
    for arrow in drawing.arrows:
        label = f', label="{arrow.weight}"' if arrow.weight > 1 else ""
        style = "" if arrow.is_direct else ", style=dashed"
        yield f"  {names[arrow.start]} -> {names[arrow.end]} [penwidth={thickness(arrow.weight):.1f}{label}{style}];"
    yield "}"


def _attributes(box: Box) -> str:
    fill, frame = COLOURS[box.kind]
    # Lines end in \l: they begin at the left side of the box.
    label = "".join(f"{_escaped(line)}\\l" for line in (box.title, *box_lines(box.lines)))
    shape = f", shape={_SHAPES[box.kind]}" if box.kind in _SHAPES else ""
    return f'label="{label}", fillcolor="{fill}", color="{frame}"{shape}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

"""What is shared as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator

from weft.explain.box_text import COLOURS, box_lines, thickness
from weft.explain.drawing import QUERIES, STREAM, Box, Drawing

#: Characters that mean something to Mermaid, or to the HTML that labels become.
_ESCAPED = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"}


def mermaid(drawing: Drawing) -> str:
    """The flowchart, as text for Mermaid."""
    return "\n".join(_lines(drawing))


def _lines(drawing: Drawing) -> Iterator[str]:
    yield "flowchart LR"
    for note in drawing.notes:
        yield f"  %% {' '.join(note.split())}"
    names = {box.key: f"b{number}" for number, box in enumerate(drawing.boxes)}
    for box in drawing.boxes:
        yield f"  {names[box.key]}{_shape(box)}:::{box.kind}"
    for arrow in drawing.arrows:
        label = f"|{arrow.weight}|" if arrow.weight > 1 else ""
        yield f"  {names[arrow.start]} {'-->' if arrow.is_direct else '-.->'}{label} {names[arrow.end]}"
    for number, arrow in enumerate(drawing.arrows):
        if arrow.weight > 1:
            yield f"  linkStyle {number} stroke-width:{thickness(arrow.weight):.1f}px"
    for kind, (fill, frame) in COLOURS.items():
        yield f"  classDef {kind} fill:{fill},stroke:{frame},color:#0f172a"


def _shape(box: Box) -> str:
    label = "<br/>".join(_escaped(line) for line in (box.title, *box_lines(box.lines)))
    if box.kind == STREAM:
        return f'[("{label}")]'
    return f'(["{label}"])' if box.kind == QUERIES else f'["{label}"]'


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in text)

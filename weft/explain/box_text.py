"""What is written in the boxes of a picture: cut to a width and a number of lines, and how thick arrows are."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

#: How wide a line of a box is, in characters, and how many lines a box has at most.
WIDTH = 38
_LINES = 7

#: Fill and frame by kind.
COLOURS = {
    "stream": ("#dbeafe", "#1d4ed8"),
    "selection": ("#fef3c7", "#b45309"),
    "join": ("#d1fae5", "#047857"),
    "tree": ("#ede9fe", "#6d28d9"),
    "queries": ("#ffffff", "#475569"),
}


def box_lines(lines: Iterable[str]) -> list[str]:
    """Lines that fit into a box; what does not is counted."""
    found: list[str] = []
    texts = list(lines)
    for place, text in enumerate(texts):
        wrapped = textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=True)
        is_note = text.startswith("…")
        if len(found) + len(wrapped) > _LINES and not is_note:
            left = [each for each in texts[place:] if not each.startswith("…")]
            found.append(f"… {len(left)} more condition{'s' * (len(left) != 1)}")
            found += [each for each in texts[place:] if each.startswith("…")]
            break
        found += wrapped
    return found


def thickness(weight: int) -> float:
    """How thick an arrow is, or a frame, that so many queries need: one more for every doubling."""
    return min(1.0 + (weight.bit_length() - 1) * 0.9, 8.0)

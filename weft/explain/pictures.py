"""Pictures of what is shared, by the format that EXPLAIN calls them by."""

from __future__ import annotations

from collections.abc import Callable

from weft.explain.dot import dot
from weft.explain.drawing import Drawing
from weft.explain.mermaid import mermaid
from weft.explain.svg import svg

PICTURES: dict[str, Callable[[Drawing], str]] = {"MERMAID": mermaid, "DOT": dot, "SVG": svg}

"""Pictures of what is shared, by the format that EXPLAIN calls them by."""

from __future__ import annotations

from collections.abc import Callable

from weft.plan.dot import dot
from weft.plan.drawing import Drawing
from weft.plan.mermaid import mermaid
from weft.plan.svg import svg

PICTURES: dict[str, Callable[[Drawing], str]] = {"MERMAID": mermaid, "DOT": dot, "SVG": svg}

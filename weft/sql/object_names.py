"""Names that streams, tables, views and queries may have."""

from __future__ import annotations

import unicodedata
from typing import Final

#: What the names of weft's own queries begin with.
OWN: Final = "weft:"


def refusal(name: str) -> str | None:
    """The sentence that refuses a name; None if a stream, table, view or query may have it."""
    if not name.strip():
        return "a name needs at least one letter"
    if name.lower().startswith(OWN):
        return f"names that begin with '{OWN}' are weft's own"
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        return f"the name {name!r} has a character that cannot be printed"
    return None

"""Tuples on their way, and the SteMs that keep them: half of a symmetric join each.

An item is a base tuple, or several that have been joined. It knows which row it has of each stream, its footprint, and
how long it lives. A SteM holds all items of a site that contain one base stream, by one attribute of it, whatever else
they contain: a plain S and an S that has met its T are found by the same probe.

An item is built into its SteMs before it probes others, and its site does one item after the other. So of two items
that match, the later one finds the earlier one, and nobody finds it twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.ordering.channels import Channel

#: The row of a stream that an item does not contain.
NONE = -1

#: When an item expires that has no window.
NEVER = 1 << 62


class Item:
    """A tuple. `via` is the channel by which it came to the site where it is now, if it was not read there."""

    __slots__ = ("expires", "footprint", "latest", "rows", "via")

    def __init__(
        self, rows: tuple[int, ...], footprint: int, latest: int, expires: int, via: Channel | None = None
    ) -> None:
        self.rows = rows
        self.footprint = footprint
        self.latest = latest
        self.expires = expires
        self.via = via


@dataclass(slots=True)
class SteM:
    """Items of a stream by the value of an attribute."""

    stream: int
    values: list[int]
    """Of the attribute, by row."""
    held: dict[int, list[Item]] = field(default_factory=dict)

    def build(self, item: Item) -> None:
        self.held.setdefault(self.values[item.rows[self.stream]], []).append(item)

    def expire(self, watermark: int) -> int:
        """Lets go of items that nothing which is still to come can meet; returns how many."""
        before = len(self)
        alive = {
            value: kept
            for value, items in self.held.items()
            if (kept := [item for item in items if item.expires > watermark])
        }
        self.held = alive
        return before - len(self)

    def __len__(self) -> int:
        return sum(map(len, self.held.values()))

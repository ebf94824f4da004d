"""Chunks that are merged when they are of like size, and the positions of ranges within them.

New rows come as a small chunk. Before it is added, the last chunks are merged with it as long as they are less than
twice as long, so that there are few chunks (as many as the logarithm of the rows) and no row is copied or sorted often:

    300,000 │ 40,000 │ 12,000 │ 4,000        each at least twice as long as the next
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TypeVar

import numpy as np

from weft.arrays.ordinals import Positions

Chunk = TypeVar("Chunk", bound=Sized)


def add_chunk(chunks: list[Chunk], chunk: Chunk, merged: Callable[[Chunk, Chunk], Chunk]) -> None:
    """Add a chunk behind the others; `merged` makes one of an older chunk and a newer one."""
    while chunks and len(chunks[-1]) < 2 * len(chunk):
        chunk = merged(chunks.pop(), chunk)
    if len(chunk):
        chunks.append(chunk)


def positions_in_ranges(starts: Positions, lengths: Positions) -> Positions:
    """The positions of some ranges, one range after the other.

    >>> positions_in_ranges(np.array([4, 9]), np.array([2, 3])).tolist()
    [4, 5, 9, 10, 11]
    """
    ends = np.cumsum(lengths)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    return np.asarray(np.repeat(starts, lengths) + within)

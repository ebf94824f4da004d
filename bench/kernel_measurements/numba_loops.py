"""Hand-written loops over rows of keys: the arithmetic of a sliding window, and nothing else.

No late rows, no keys that come and go, one range, a window that is always full, sums that are allowed to drift. What
stays is what any kernel must do at least: read a partial, combine, write an answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)  # type: ignore[untyped-decorator]
def sum_rows(incoming: NDArray[Any], ring: NDArray[Any], running: NDArray[Any], at: int, answers: NDArray[Any]) -> int:
    """Adds the row that comes, subtracts the one that goes; returns where the ring has got to."""
    for i in range(incoming.shape[0]):
        for k in range(incoming.shape[1]):
            running[k] += incoming[i, k] - ring[at, k]
            ring[at, k] = incoming[i, k]
            answers[i, k] = running[k]
        at = at + 1 if at + 1 < ring.shape[0] else 0
    return at


@njit(cache=True)  # type: ignore[untyped-decorator]
def max_rows(incoming: NDArray[Any], suffixes: NDArray[Any], back: NDArray[Any], at: int, answers: NDArray[Any]) -> int:
    """Blocks of one window each: the greatest from a row to the end of its block, and of the newest block so far.

    Three comparisons per value, all of them in vectors over keys (van Herk; Gil and Werman). A ring of rows turns into
    suffixes in place when the block is full.
    """
    window, keys = suffixes.shape
    for i in range(incoming.shape[0]):
        if at == window:
            for row in range(window - 2, -1, -1):
                for k in range(keys):
                    suffixes[row, k] = max(suffixes[row, k], suffixes[row + 1, k])
            back[:] = -np.inf
            at = 0
        if at + 1 < window:
            for k in range(keys):
                back[k] = max(back[k], incoming[i, k])
                suffixes[at, k] = incoming[i, k]
                answers[i, k] = max(back[k], suffixes[at + 1, k])
        else:
            for k in range(keys):
                back[k] = max(back[k], incoming[i, k])
                suffixes[at, k] = incoming[i, k]
                answers[i, k] = back[k]
        at += 1
    return at

"""The data, cut into substreams: parts of streams that queries want or do not want as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Substreams:
    """By substream its source (a number in the network graph) and its rate in bytes per second."""

    source: NDArray[np.int32]
    rate: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rate)

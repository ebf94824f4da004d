"""Who wants what, how fast they are, and how far apart: all that a dissemination tree is judged by.

Nodes are numbers; the source is node 0. Every node can send to every other, and the delay between them is that of the
network below. Seconds and messages per second throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]

SOURCE = 0


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """The source and its nodes.

    `rates[i, x]` is the rate of the updates of object x that are meant for node i: the stricter its coherency
    requirement, the higher, and 0 if no query there wants the object. The source has every update.
    """

    rates: Floats
    filter_time: Floats
    send_time: Floats
    delay: Floats

    @property
    def nodes(self) -> int:
        """All of them, with the source."""
        return len(self.filter_time)

    @property
    def objects(self) -> int:
        return int(self.rates.shape[1])

    def weights(self) -> Floats:
        """What a second of delay of an object costs a node in fidelity: its rate, over the number of its objects."""
        wanted = np.count_nonzero(self.rates, axis=1)
        weights: Floats = self.rates / np.maximum(wanted, 1)[:, None]
        weights[SOURCE] = 0.0
        return weights

    def interested(self, objects: tuple[int, ...]) -> list[int]:
        """The nodes that want one of the objects, without the source."""
        wanting = self.rates[:, list(objects)].any(axis=1)
        return [int(node) for node in np.flatnonzero(wanting) if node != SOURCE]

    def with_times(self, filter_time: ArrayLike, send_time: ArrayLike) -> Overlay:
        """The same nodes, busier or idler than before."""
        return overlay(self.rates, filter_time, send_time, self.delay)


def overlay(rates: ArrayLike, filter_time: ArrayLike, send_time: ArrayLike, delay: ArrayLike) -> Overlay:
    """An overlay from plain numbers, checked. One object: `rates` may be a list of one rate for each node."""
    of_objects = np.array(rates, dtype=np.float64)
    of_objects = of_objects[:, None] if of_objects.ndim == 1 else of_objects
    made = Overlay(
        of_objects,
        np.array(filter_time, dtype=np.float64),
        np.array(send_time, dtype=np.float64),
        np.array(delay, dtype=np.float64),
    )
    _check(made)
    for array in (made.rates, made.filter_time, made.send_time, made.delay):
        array.flags.writeable = False
    return made


def _check(made: Overlay) -> None:
    nodes = made.nodes
    if made.rates.shape[0] != nodes or made.send_time.shape != (nodes,) or made.delay.shape != (nodes, nodes):
        raise ValueError(
            f"{nodes} filter times need as many send times and rows of rates, and {nodes} × {nodes} delays; "
            f"there are {made.send_time.shape}, {made.rates.shape} and {made.delay.shape}"
        )
    for name in ("rates", "filter_time", "send_time", "delay"):
        array = getattr(made, name)
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{name}: every number must be finite and not negative")
    if (made.rates[SOURCE] < made.rates.max(axis=0)).any():
        scarce = int(np.argmax(made.rates[SOURCE] < made.rates.max(axis=0)))
        raise ValueError(
            f"object {scarce}: a node wants {made.rates[:, scarce].max():g} updates a second of it, and the source "
            f"(node 0) has {made.rates[SOURCE, scarce]:g}; give the source the largest rate of each object"
        )

"""How true a copy is, and which updates keep it true.

A query tolerates a divergence from the true value, its coherency requirement; a node has the strictest requirement of
its queries for each object. Its **fidelity** is the share of time in which its copy is within the requirement.

A parent filters for a child with the strictest requirement in the child's whole subtree, its effective tolerance. It
must look ahead: its own copy may be off by its own tolerance already, so of the child's only the difference is left.

    source                              10.0    10.55   10.9     the last change is within the parent's tolerance
    parent (tolerates 0.5)              10.0    10.55
    child (0.6), sent changes > 0.6     10.0                     off by 0.9, and nobody notices
    child (0.6), sent changes > 0.1     10.0    10.55
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.dissemination.overlay import SOURCE
from lab.dissemination.trees import Tree

#: How far a copy is from the truth: the distance of numbers, the edits between texts, the versions missed.
Divergence = Callable[[float, float], float]


def distance(true: float, copy: float) -> float:
    return abs(true - copy)


def must_forward(value: float, last_sent: float, own: float, childs: float, div: Divergence = distance) -> bool:
    """Whether a node whose effective tolerance is `own` (the source's is 0) forwards a value to a child."""
    return div(value, last_sent) > childs - own


def effective_tolerances(tree: Tree, tolerances: Sequence[float]) -> list[float]:
    """The strictest tolerance in each node's subtree: what its parent filters with. The source tolerates nothing."""
    effective = list(tolerances)
    for node in reversed(tree.breadth_first()[1:]):
        parent = tree.parents[node]
        effective[parent] = min(effective[parent], effective[node])
    effective[SOURCE] = 0.0
    return effective


@dataclass(frozen=True, slots=True)
class Version:
    """A value from an instant on."""

    at: int
    value: float


def fidelity(
    truth: Sequence[Version],
    copy: Sequence[Version],
    tolerance: float,
    start: int,
    end: int,
    div: Divergence = distance,
) -> float:
    """The share of time between two instants in which the copy was within its tolerance.

    Both logs are in order of time and have a version at `start` or before.
    """
    if end <= start:
        raise ValueError("fidelity is a share of a stretch of time: the end must lie after the start")
    instants = sorted({start, end, *(each.at for each in (*truth, *copy) if start < each.at < end)})
    kept, place_true, place_copy = 0, 0, 0
    for begin, until in pairwise(instants):
        while place_true + 1 < len(truth) and truth[place_true + 1].at <= begin:
            place_true += 1
        while place_copy + 1 < len(copy) and copy[place_copy + 1].at <= begin:
            place_copy += 1
        if div(truth[place_true].value, copy[place_copy].value) <= tolerance:
            kept += until - begin
    return kept / (end - start)

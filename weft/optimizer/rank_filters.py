"""The order in which filters look at rows: cheap and selective ones first.

A filter that costs c per row and lets the share s of its rows pass earns (1 − s) / c per second: that is its rank.
Filters in descending rank cost least in expectation, provided that they pass rows independently of each other:

    expected cost per row = c₁ + s₁·c₂ + s₁·s₂·c₃ + …

Swapping two neighbours i, j changes that by s₁…·((1 − sᵢ)·cⱼ − (1 − sⱼ)·cᵢ), which is why ranks decide. A filter never
returns more rows than it takes, so ranks are never negative; what was never seen to cost anything comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol


class Operator(Protocol):
    """Anything with a selectivity and a cost: a filter, or a join as the rows that probe it see it."""

    @property
    def selectivity(self) -> float: ...

    @property
    def cost(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter as it was observed: the share of rows that pass, and the seconds (or any unit) for each row it sees."""

    name: str
    selectivity: float
    cost: float

    @classmethod
    def observed(cls, name: str, rows_in: float, rows_out: float, seconds: float) -> Filter:
        """From counts. A filter that no row has reached is taken to drop nothing, at no known cost: it comes first
        among its equals, so that it is seen soon, only if nothing else is known to drop rows for free."""
        if rows_in <= 0:
            return cls(name, 1.0, 0.0)
        return cls(name, rows_out / rows_in, seconds / rows_in)


def rank(operator: Operator) -> float:
    """What it drops per unit of cost."""
    dropped = 1 - operator.selectivity
    if operator.cost > 0:
        return dropped / operator.cost
    return inf if dropped > 0 else 0.0 if dropped == 0 else -inf


def rank_filters(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """The cheapest order; filters of equal rank stay in theirs."""
    return tuple(sorted(filters, key=rank, reverse=True))


def expected_cost(operators: Sequence[Operator]) -> float:
    """What a row costs on average if operators see it in this order and pass rows independently."""
    cost, left = 0.0, 1.0
    for operator in operators:
        cost += left * operator.cost
        left *= operator.selectivity
    return cost

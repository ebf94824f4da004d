"""What a coordinator answers: where a query goes and why, what a move would cost, and what a round would move."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """What a query would cost at one target of a coordinator, in bytes per second times milliseconds."""

    target: str
    cost: float


@dataclass(frozen=True, slots=True)
class Step:
    """One coordinator on the way from the root to a provider: what it could choose from, the cheapest first."""

    coordinator: str
    choices: tuple[Choice, ...]

    @property
    def chosen(self) -> str:
        return self.choices[0].target


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a query goes, step by step."""

    query: str
    provider: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A query that goes from one provider to another.

    `saves` is by how much the edge cut shrinks, in bytes per second times milliseconds (it grows if negative);
    `carries` the bytes of state, and `milliseconds` how far they go.
    """

    query: str
    source: str
    target: str
    saves: float
    carries: float
    milliseconds: float

    @property
    def pays_after(self) -> float | None:
        """The seconds after which a move has paid for itself; None if it never does."""
        return self.carries * self.milliseconds / self.saves if self.saves > 0 else None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a placement stands: its edge cut, and the most loaded provider against its fair load."""

    edge_cut: float
    fullest: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves that were decided and not carried out. They are carried out all together, or one by one."""

    moves: tuple[Move, ...]
    before: Standing
    after: Standing

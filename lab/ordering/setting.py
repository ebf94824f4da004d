"""What a run needs besides the query: tuples, machines, what changes meanwhile, and the figures of the machinery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.ordering.tickets import Lottery


@dataclass(frozen=True, slots=True)
class Feed:
    """The tuples of a stream: the values of its attributes, row by row."""

    values: Mapping[str, Sequence[int]]
    instants: Sequence[int] | None = None
    """When they come, in nanoseconds, ascending; as quickly as they can be read if not given."""
    window: int | None = None
    """For how many nanoseconds a tuple can be joined with later ones; for ever if not given."""
    stored: bool = False

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))


@dataclass(frozen=True, slots=True)
class Machine:
    """A site's processor and its connection."""

    speed: float = 1.0
    wire: float = 10e-6
    """Seconds to send one tuple from or to this site; a wire takes as long as the slower of its ends."""
    others: int = 0
    """Programs that share the processor, each with an equal part of it."""


@dataclass(frozen=True, slots=True)
class Change:
    """At some instant a site's connection or load changes; what is not given stays."""

    at: float
    site: str
    wire: float | None = None
    others: int | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    """What steps take at a site of speed 1, in seconds."""

    read: float = 190e-6
    receive: float = 190e-6
    send: float = 190e-6
    build: float = 250e-6
    probe: float = 300e-6
    match: float = 250e-6
    """Each match that a probe finds."""


@dataclass(frozen=True, slots=True)
class Settings:
    costs: Costs = field(default_factory=Costs)
    lottery: Lottery = field(default_factory=Lottery)
    capacity: int = 100
    """Items in each queue."""
    threshold: int = 100
    """Results after which their number is reported to a meta-operator."""
    sweep: float = 1.0
    """Seconds between two looks for expired items."""

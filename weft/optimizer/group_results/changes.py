"""What comes out of grouping: representatives, and what changes when queries come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from weft.algebra import Query
from weft.windows.slicing import ResidueClass


class Kind(Enum):
    """How the rows of a representative are counted, and so where one epoch ends and the next one begins."""

    #: Rows pass at once: a member takes the rows of some cycles.
    SELECTION = "selection"
    #: Rows of several streams meet: a member takes rows by the newest of their clocks.
    JOIN = "join"
    #: Windows close: a member takes the rows of instances by their start.
    AGGREGATE = "aggregate"
    #: The query is no such thing and has a group of its own, which never changes.
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Part:
    """One query that the engine evaluates for a group. All parts of an epoch have the same columns.

    `ends` are the ends of its window instances, if there are several parts: a row is published by the first part whose
    `ends` have its `window_end`, so that what two parts answer is published once.
    """

    query: Query
    ends: ResidueClass | None = None

    def publishes(self, window_end: int) -> bool:
        """Whether an instance with this end is one of this part's."""
        return self.ends is None or window_end % self.ends.modulus == self.ends.residue


@dataclass(frozen=True, slots=True)
class Representative:
    """What a group evaluates and publishes from one epoch to the next.

    `columns` are the published columns, in the order of the parts' outputs. For a join, `clocks` are those that show
    the clocks of its flowing inputs, and `reach` is the largest number of ticks that two of its rows may be apart: if
    it starts when the largest clocks are L1, L2, …, then from max L + reach + 1 on it lacks nothing.
    """

    group: str
    epoch: int
    kind: Kind
    parts: tuple[Part, ...]
    columns: tuple[str, ...]
    clocks: tuple[str, ...] = ()
    reach: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """What an insertion, a termination or a round of re-optimisation did.

    `changed` are the groups with a new representative, and so a new epoch; new groups are among them. Those of them in
    `narrowed` publish a part of what they published before: nobody lacks anything if they wait. `moved` has, by member,
    the group it was in and the group it is in; None for a member that was not there before, or is not any more.
    `ended` are groups without members. `resubscribed` are members whose subscription is another one now.
    """

    changed: tuple[str, ...] = ()
    narrowed: frozenset[str] = frozenset()
    moved: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    resubscribed: frozenset[str] = frozenset()

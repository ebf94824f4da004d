"""What the optimizer knows: what was measured, what is set, and what was decided for good. It looks nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from weft.optimizer.network.redeciding import ForcedChoices, Patience
from weft.optimizer.network.sizes import NOTHING_KNOWN, SizeStatistics
from weft.plan.facts import StreamFacts
from weft.plan.nodes import KeySet
from weft.sql.settings import Settings

_DEFAULTS: Final = Settings({})


class BegunQuery(Protocol):
    """What was decided for good when a query began: whether it shares its nodes, and its form (see `OutputNode`)."""

    @property
    def shared(self) -> bool: ...

    @property
    def root(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RevisedJoins:
    """That orders of joins are chosen again, and when; tests have selects chosen again by `forced`."""

    patience: Patience = field(default_factory=Patience)
    forced: ForcedChoices | None = None


@dataclass(frozen=True)
class Facts:
    """What is known when a plan is made."""

    #: The cycle that the plan is for, and whether it is the first one of a process: nothing is in memory then.
    cycle: int = 0
    is_start: bool = False
    #: Whether queries that begin with the cycle share anything.
    sharing: bool = True
    begun: Mapping[str, BegunQuery] = field(default_factory=dict)
    #: The stages that have the state of relations, by the text of their ids.
    evaluators: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = _DEFAULTS
    streams: Mapping[str, StreamFacts] = field(default_factory=dict)
    #: About how many partials are live, by stream and key set, where they are not few; None if that is not known.
    live_partials: Mapping[tuple[str, KeySet], int] | None = None
    #: The key sets, by stream, whose windows the driver had no memory for.
    displaced: Collection[tuple[str, KeySet]] = frozenset()
    #: What is known of the sizes of logs and joins.
    sizes: SizeStatistics = NOTHING_KNOWN
    #: How many rows are kept for joins, and how many of them the driver has room for.
    join_rows: int = 0
    most_join_rows: int | None = None
    #: None if joins keep their orders.
    revised: RevisedJoins | None = None

    def leaves_to(self, evaluator: str, id_: str) -> bool:
        """Whether a relation may be evaluated by a stage: whatever has its state goes on with it."""
        return self.evaluators.get(id_, evaluator) == evaluator

"""What is known of a cycle before it runs, and where it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from weft.plan.plan import Plan
from weft.runtime.state.commits import WHOLE, Intent, Segment
from weft.runtime.state.offsets import Offsets


@dataclass(frozen=True)
class CycleSpec:
    """What is decided before a cycle begins, and written as its intent, so that a second attempt does the same.

    `heartbeats` are clocks that streams have reached without rows. `patience` is how many microseconds a stream may be
    silent before its clock goes on with the ticks in the batch. `latest` is the largest TIMESTAMP that is believed of a
    clock: one row from the far future would make all that follow late. Without `sharing`, queries that begin with the
    cycle share nothing. `facts` are what trees are chosen by, see `weft/plan/facts.py`; no answer depends on them.
    `tables` has the snapshot of each table that the plan reads, by name. Of streams that may shed, `kept` of `WHOLE`
    rows are kept. The `plan_digest` tells the plan from any other. With `keeps_late_rows`, rows that are late for some
    queries and not for all go to the dead letter. `offsets` say which rows of Spark's sources the cycle has.
    `evicted` are the queries that failed in attempts at this cycle, with what is wrong.
    `bad_files` are set aside: by stream and path, why they cannot be read.
    """

    cycle: int
    plan: Plan
    heartbeats: Mapping[str, int]
    patience: int | None = None
    latest: int | None = None
    sharing: bool = True
    facts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    tables: Mapping[str, Segment] = field(default_factory=dict)
    kept: int = WHOLE
    offsets: Offsets | None = None
    plan_digest: str = ""
    keeps_late_rows: bool = False
    bad_files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    evicted: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(cycle: int, intent: Intent, plan: Plan) -> CycleSpec:
        """The spec that an intent declares, with the plan whose number it has."""
        decided = {each.name: getattr(intent, each.name) for each in fields(intent) if each.name != "plan"}
        return CycleSpec(cycle=cycle, plan=plan, **decided)


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the cycles of the shared plan write, or those of an island: see `islands.py`."""

    island: str = ""

    def of(self, cycle: int) -> str:
        """The folder that a cycle writes to."""
        return f"segments/{cycle:012d}.{self.island}" if self.island else f"segments/{cycle:012d}"


def folder_in(path: str) -> str:
    """The folder of the cycle, or of the query, that a file was written for."""
    return "/".join(path.split("/")[:2])

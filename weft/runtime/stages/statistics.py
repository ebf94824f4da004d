"""What cycles have measured, as the catalog keeps it for the newest of them.

    cycle                seconds, answers, Spark jobs, and the seconds of each stage
    stream:<name>        rows, late, bad, shed, partials, ticks, rates; and the stream's number
    keys:<name>          how many different keys there have been, by key set
    conditions:<name>    the share of rows that satisfies a condition, by its text
    facts:<name>         what plans are chosen by from then on, see `weft/plan/facts.py`
    and of the network, see `joins/network_records.py`

`weft/runtime/recorder.py` records them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from weft.algebra import Stream
from weft.catalog import Catalog
from weft.expressions.spark_expressions import with_names
from weft.plan.facts import CycleMeasured, Measurements, StreamFacts, StreamMeasured, facts_of
from weft.runtime.stages.joins.network_records import recorded_sizes

#: The name of the record of a cycle as a whole.
CYCLE = "cycle"

#: Numbers of a cycle that are not the seconds of a stage.
_OF_CYCLE = ("seconds", "answers", "jobs", "behind")


def facts(catalog: Catalog) -> dict[str, StreamFacts]:
    """What was known of each stream after the newest cycle."""
    return {each.stream.name: facts_of(each.facts) for each in _records(catalog) if each.facts}


def measured(catalog: Catalog) -> Measurements:
    """What the newest cycles measured. Columns have their names."""
    with catalog.transaction():
        cycles, records = catalog.statistics(CYCLE), _records(catalog)
    return Measurements(
        tuple(
            CycleMeasured(
                each.cycle,
                float(each.numbers["seconds"]),
                int(each.numbers["answers"]),
                int(each.numbers["jobs"]) if "jobs" in each.numbers else None,
                {stage: float(seconds) for stage, seconds in each.numbers.items() if stage not in _OF_CYCLE},
                {of.stream.name: of.measured(each.cycle) for of in records if each.cycle in of.grown},
                float(each.numbers.get("behind", 0.0)),
            )
            for each in cycles
        ),
        {of.stream.name: shares for of in records if (shares := of.selectivities())},
        {of.stream.name: facts_of(of.facts) for of in records if of.facts},
        recorded_sizes(catalog).document(),
    )


@dataclass(frozen=True)
class _Records:
    """What is recorded of one stream, by cycle."""

    stream: Stream
    grown: Mapping[int, Mapping[str, int | float]]
    keys: Mapping[int, Mapping[str, int | float]]
    shares: Mapping[int, Mapping[str, int | float]]
    #: What was known after the newest cycle.
    facts: Mapping[str, int | float]

    def measured(self, cycle: int) -> StreamMeasured:
        numbers = self.grown[cycle]
        return StreamMeasured(
            int(numbers["rows"]),
            int(numbers["late"]),
            int(numbers["bad"]),
            int(numbers["partials"]) if "partials" in numbers else None,
            int(numbers["ticks"]),
            numbers.get("rows_per_event_second"),
            numbers.get("rows_per_second"),
            {with_names(text, self.stream): int(count) for text, count in self.keys.get(cycle, {}).items()},
            int(numbers.get("shed", 0)),
        )

    def selectivities(self) -> dict[str, float]:
        """The newest share of each condition."""
        shares = {text: share for of_cycle in self.shares.values() for text, share in of_cycle.items()}
        return {with_names(text, self.stream): float(share) for text, share in shares.items()}


def _records(catalog: Catalog) -> list[_Records]:
    found = []
    with catalog.transaction():
        numbers = catalog.stream_numbers()
        for stream in catalog.streams():
            grown, *others = (
                {each.cycle: each.numbers for each in catalog.statistics(f"{kind}:{stream.name}")}
                for kind in ("stream", "keys", "conditions", "facts")
            )
            # Another stream may have had the name before.
            grown = {cycle: each for cycle, each in grown.items() if each["number"] == numbers[stream.name]}
            keys, shares, known = ({cycle: of[cycle] for cycle in sorted(of) if cycle in grown} for of in others)
            found.append(_Records(stream, grown, keys, shares, next(reversed(known.values()), {})))
    return found


def rates(measured: Measurements) -> dict[str, Fraction]:
    """Rows per tick of each stream, over all cycles that are kept."""
    rows: dict[str, int] = {}
    ticks: dict[str, int] = {}
    for cycle in measured.cycles:
        for name, each in cycle.streams.items():
            if each.ticks:
                rows[name] = rows.get(name, 0) + each.rows
                ticks[name] = ticks.get(name, 0) + each.ticks
    return {name: Fraction(rows[name], ticks[name]) for name in rows}

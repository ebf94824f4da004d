"""What the network was like and what was decided by it, as the catalog keeps it and as others read it.

    rows:<log>           rows that are kept, and `new:<log>` those that arrive in a cycle, smoothed
    share:<logs>         the share of rows of a log, or of pairs of rows of two, that satisfy a condition, by its text
    values:<log>         how many values a column has, about, by column
    node:<logs>          the share of combinations of rows that are in a node, by what the node computes
    pairs:<join>         how many pairs a join looked at in the cycle, and how many were in a node
    redecided:<n>        the n-th decision before the cycle: the orders with their costs, what they were judged by, and
                         for which selects

Logs are a list: `share:["stream f", "stream g"]`. A cycle records some numbers of every kind,
by turns, so what is known is in the newest records together. There is nothing here for every query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.catalog import Catalog
from weft.optimizer.network import MeasuredSizes, Redecided, SizeKey, SizeKind
from weft.optimizer.network.measured_sizes import in_turn
from weft.plan.log_ids import LogId

Numbers = dict[str, dict[str, int | float]]

_PAIRS, _REDECIDED = "pairs", "redecided"
_KINDS = {kind.value: kind for kind in (SizeKind.ROWS, SizeKind.NEW, SizeKind.SHARE, SizeKind.VALUES, SizeKind.NODE)}
#: A cycle records so many numbers of one kind, and so many joins.
_AT_ONCE = 64

_FROM, _TO, _SELECT = "from ", "to ", "select "
#: Between the logs of a reason and what it says of them.
_BREAK = " | "


@dataclass(frozen=True)
class RecordedSizes:
    """What is known of selections and joins, and what has been decided anew because of it, oldest first."""

    known: Mapping[SizeKey, float]
    #: Of each join, in the newest cycle that tells of it: the pairs that were looked at, and those that were kept.
    pairs: Mapping[str, tuple[int, int]]
    history: tuple[Redecided, ...]

    def of_select(self, place: str) -> tuple[Redecided, ...]:
        """What was decided anew for a select, by its place."""
        return tuple(each for each in self.history if place in each.places)

    def document(self) -> dict[str, Any]:
        """All of it as plain data, without what is empty."""
        known: dict[str, dict[str, float]] = {}
        for each, value in self.known.items():
            known.setdefault(_key(each), {})[_name(each)] = value
        document: dict[str, Any] = {
            "known": known,
            "pairs": {join: {"looked at": looked, "kept": kept} for join, (looked, kept) in self.pairs.items()},
            "redecided": [
                {
                    "cycle": each.cycle,
                    "selects": list(each.places),
                    "from": each.before,
                    "to": each.after,
                    "cost_before": each.cost_before,
                    "cost_after": each.cost_after,
                    "observed": {_text(known): value for known, value in each.observed},
                }
                for each in self.history
            ],
        }
        return {section: each for section, each in document.items() if each}


def recorded(
    cycle: int, observed: MeasuredSizes, pairs: Mapping[str, tuple[int, int]], redecided: Iterable[Redecided]
) -> Numbers:
    """What a cycle records of the network."""
    numbers = Numbers()
    for kind in _KINDS.values():
        for known in in_turn([each for each in observed if each.kind is kind], cycle, _AT_ONCE):
            value = observed.value(known)
            if value is not None:
                of = f"{kind.value}:{json.dumps(known.logs)}"
                numbers.setdefault(of, {})[_name(known)] = value
    for join, (looked_at, kept) in in_turn(list(pairs.items()), cycle, _AT_ONCE):
        numbers[f"{_PAIRS}:{join}"] = {"looked at": looked_at, "kept": kept}
    for number, each in enumerate(redecided):
        numbers[f"{_REDECIDED}:{number}"] = {
            f"{_FROM}{each.before}": each.cost_before,
            f"{_TO}{each.after}": each.cost_after,
            **{json.dumps([known.kind.value, known.logs, _name(known)]): value for known, value in each.observed},
            **{f"{_SELECT}{place}": position for position, place in enumerate(each.places)},
        }
    return numbers


def recorded_sizes(catalog: Catalog) -> RecordedSizes:
    """What the newest cycles recorded."""
    known: dict[SizeKey, float] = {}
    pairs: dict[str, tuple[int, int]] = {}
    history: list[Redecided] = []
    with catalog.transaction():
        for key in catalog.latest_statistics():
            kind, _, of = key.partition(":")
            if kind in _KINDS:
                for record in catalog.statistics(key):
                    logs = json.loads(of)
                    known |= {_known(_KINDS[kind], logs, name): float(each) for name, each in record.numbers.items()}
            elif kind == _PAIRS:
                newest = catalog.statistics(key)[-1].numbers
                pairs[of] = int(newest["looked at"]), int(newest["kept"])
            elif kind == _REDECIDED:
                history += [_redecided(each.cycle, each.numbers) for each in catalog.statistics(key)]
    return RecordedSizes(known, pairs, tuple(sorted(history, key=lambda each: (each.cycle, each.places))))


def observed_before(catalog: Catalog) -> MeasuredSizes:
    """What was known of the network when it last ran."""
    observed = MeasuredSizes()
    observed.restore(recorded_sizes(catalog).known)
    return observed


def _key(known: SizeKey) -> str:
    return f"{known.kind.value}:{' x '.join(known.logs)}"


def _text(known: SizeKey) -> str:
    return f"{_key(known)}{_BREAK}{_name(known)}"


def _name(known: SizeKey) -> str:
    return known.of or known.kind.value


def _known(kind: SizeKind, logs: Sequence[str], name: str) -> SizeKey:
    return SizeKey(kind, tuple(map(LogId.parse, logs)), "" if kind in (SizeKind.ROWS, SizeKind.NEW) else name)


def _redecided(cycle: int, numbers: Mapping[str, int | float]) -> Redecided:
    (before, cost_before), (after, cost_after) = (next(_beginning(numbers, with_)) for with_ in (_FROM, _TO))
    return Redecided(
        cycle,
        tuple(place for place, _ in _beginning(numbers, _SELECT)),
        before,
        after,
        int(cost_before),
        int(cost_after),
        tuple(_reason(name, float(value)) for name, value in numbers.items() if name.startswith("[")),
    )


def _beginning(numbers: Mapping[str, int | float], with_: str) -> Iterator[tuple[str, int | float]]:
    return ((name.removeprefix(with_), value) for name, value in numbers.items() if name.startswith(with_))


def _reason(text: str, value: float) -> tuple[SizeKey, float]:
    """A number that a decision was made by, from `["share", ["stream f"], "T1.amount > 10"]`."""
    kind, logs, name = json.loads(text)
    return _known(_KINDS[kind], logs, name), value

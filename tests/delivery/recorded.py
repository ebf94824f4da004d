"""A recorded stream and an engine that plays it: members come, move, are given new epochs, and end.

Three groups publish trades. What each query's user must get is what the naive evaluator makes of all parcels and of the
query's last itinerary, from the cycle on in which the user came.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from weft.delivery import Itinerary, Message, Span
from weft.plan.subscription import Comparison, Meeting, Schedule, Subscription

SYMBOLS = ("AA", "BB", "CC", "DD", "EE", "FF")
_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class Played:
    """What a cycle publishes."""

    cycle: int
    published: tuple[Message, ...]
    control: tuple[Itinerary, ...]


def play(cycles: int, members: int, seed: int = 7, rows: int = 40) -> Iterator[Played]:
    """A recording: the same for the same arguments. In each cycle some members come, move to a new epoch or end."""
    chance = random.Random(seed)
    routes: dict[str, Itinerary] = {}
    epoch = dict.fromkeys(("trades", "pairs", "means"), 0)
    created = 0
    for cycle in range(cycles):
        control: dict[str, Itinerary] = {}
        switched = chance.choice(sorted(epoch)) if cycle and not cycle % 4 else None
        if switched is not None:
            epoch[switched] += 1
        overlap = [switched] if switched == "pairs" else []
        for query, route in routes.items():
            control |= {query: moved} if (moved := _moved(route, switched, epoch, cycle)) else {}
        for _ in range(members if cycle == 0 else 2):
            route = _member(f"q{created}", chance, epoch, cycle)
            created += 1
            control[route.query] = route
        living = [query for query, route in routes.items() if route.ended is None]
        if cycle % 3 == 2 and living:
            query = chance.choice(living)
            control[query] = replace(control.get(query, routes[query]), ended=cycle)
        routes |= control
        published = [_published(group, number, chance, cycle, rows) for group, number in sorted(epoch.items())]
        # A join's old epoch goes on beside the new one for a while.
        published += [replace(published[1], epoch=epoch[group] - 1) for group in overlap]
        published.append(_published("trades", epoch["trades"], chance, cycle, 3))
        yield Played(cycle, tuple(published), tuple(control.values()))


def _moved(route: Itinerary, switched: str | None, epoch: dict[str, int], cycle: int) -> Itinerary | None:
    """The itinerary of a member of a group that begins a new epoch."""
    last = route.spans[-1]
    if last.stream != switched or route.ended is not None:
        return None
    at = _place(switched, cycle)
    ended, begun = replace(last, until=at), Span(switched, epoch[switched], last.by, at)
    return replace(route, spans=(*route.spans[:-1], ended, begun))


def _place(group: str, cycle: int) -> int:
    """Where a group's rows of a cycle are divided between epochs: in the midst of them unless cycles divide."""
    return cycle if group == "trades" else cycle * 10 * _MINUTE + 5 * _MINUTE


def _member(query: str, chance: random.Random, epoch: dict[str, int], cycle: int) -> Itinerary:
    group = chance.choice(("trades", "trades", "pairs", "means"))
    low = chance.randrange(0, 95)
    box = (Comparison("price", ">=", float(low)), Comparison("price", "<", float(low + chance.randrange(1, 12))))
    alternatives = [box]
    if chance.random() < 0.3:
        alternatives.append((Comparison("symbol", "in", (chance.choice(SYMBOLS), chance.choice(SYMBOLS))),))
    columns: tuple[tuple[str, str], ...] = (("price", "price"), ("what", "symbol"))
    if chance.random() < 0.4:
        columns = (("id", "id"),)
    meeting = schedule = None
    by: tuple[str, ...] = ()
    if group == "pairs":
        by, meeting = ("s.ts", "t.ts"), Meeting((("s.ts", chance.randrange(1, 6) * _MINUTE), ("t.ts", 4 * _MINUTE)))
    if group == "means":
        by, schedule = ("window_start",), Schedule("window_end", chance.choice((1, 2, 5)) * _MINUTE)
    subscription = Subscription(group, columns, tuple(alternatives), meeting, schedule)
    since = _place(group, cycle)
    return Itinerary(query, (subscription,), (Span(group, epoch[group], by, since),))


def _published(group: str, epoch: int, chance: random.Random, cycle: int, count: int) -> Message:
    base = cycle * 10 * _MINUTE
    clocks = [base + chance.randrange(0, 10) * _MINUTE for _ in range(count)]
    stamp = pa.timestamp("us", "UTC")
    columns: dict[str, pa.Array] = {
        "id": pa.array([cycle * 100_000 + at * 10 + len(group) for at in range(count)], pa.int64()),
        "symbol": pa.array([chance.choice(SYMBOLS) if chance.random() > 0.05 else None for _ in range(count)]),
        "price": pa.array([chance.choice((chance.uniform(0, 100), 50.0, None)) for _ in range(count)], pa.float64()),
        "ballast": pa.array(["." * chance.randrange(0, 20) for _ in range(count)]),
    }
    if group == "pairs":
        columns["s.ts"] = pa.array(clocks, stamp)
        columns["t.ts"] = pa.array([each + chance.randrange(-5, 6) * _MINUTE for each in clocks], stamp)
    if group == "means":
        columns["window_start"] = pa.array(clocks, stamp)
        columns["window_end"] = pa.array([each + 10 * _MINUTE for each in clocks], stamp)
    return Message(group, epoch, pa.table(columns), base)

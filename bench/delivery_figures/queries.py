"""Queries to group: the source's random ones, and those of users who fill in the constants of a few templates.

The source says: 63 sensor streams; 1 to 5 streams and 1 to 5 predicates per query; random windows and projections;
which streams, and which part of their values, uniform or Zipf. What it does not say is ours: five attributes with
values from 0 to 1, of which a query shows 1 to 5, a tick of a millisecond, a row every two seconds, and ranges of
windows from a tenth of a second to a second, so that two streams joined have about half as many rows as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.algebra import (
    Aggregate,
    AggregateRef,
    Call,
    Column,
    Expression,
    Field,
    Input,
    KeyRef,
    Literal,
    Output,
    Query,
    Select,
    Stream,
    Window,
    WindowBound,
)
from weft.algebra.types import BIGINT, BOOLEAN, DOUBLE
from weft.optimizer.group_results import TrafficStatistics

STREAMS, ATTRIBUTES = 63, 5
MOST_STREAMS = MOST_PREDICATES = MOST_ATTRIBUTES = 5

#: Bytes: eight for a value, four for a clock.
_VALUE, _CLOCK = 8.0, 4.0
_CELLS = 20
_SLIDES = (1, 10, 20, 50, 100)

_FIELDS = (Field("ts", BIGINT), *(Field(f"a{number}", DOUBLE) for number in range(ATTRIBUTES)))
SENSORS = tuple(Stream(f"s{number}", _FIELDS, "ts", 0, "memory") for number in range(STREAMS))


@dataclass(frozen=True, slots=True)
class Popularity:
    """How streams and parts of their values are chosen: uniformly, or by Zipf with a skew."""

    name: str
    skew: float

    def weights(self, count: int) -> npt.NDArray[np.float64]:
        ranks = np.arange(1, count + 1, dtype=np.float64)
        shares = ranks**-self.skew
        return np.asarray(shares / shares.sum())


UNIFORM = Popularity("uniform", 0.0)
POPULARITIES = (UNIFORM, Popularity("Zipf 1.0", 1.0), Popularity("Zipf 1.5", 1.5), Popularity("Zipf 2.0", 2.0))


def statistics(sample: int = 1024, seed: int = 7) -> TrafficStatistics:
    """A row every two seconds on every stream, values from 0 to 1."""
    random = np.random.default_rng(seed)
    values = {
        f"{stream.name}.{field.name}": random.random(4 * sample).tolist() for stream in SENSORS for field in _FIELDS[1:]
    }
    widths = {f"{stream.name}.{field.name}": _VALUE for stream in SENSORS for field in _FIELDS[1:]}
    clocks = {f"{stream.name}.ts": _CLOCK for stream in SENSORS}
    rates = {stream.name: 0.0005 for stream in SENSORS}
    return TrafficStatistics(rates, {**widths, **clocks}, values, sample=sample)


def random_queries(popularity: Popularity, count: int, seed: int) -> list[Query]:
    """The source's queries."""
    random = np.random.default_rng(seed)
    streams, cells = popularity.weights(STREAMS), popularity.weights(_CELLS)
    return [_random_query(f"q{number}", random, streams, cells) for number in range(count)]


def _random_query(
    name: str, random: np.random.Generator, streams: npt.NDArray[np.float64], cells: npt.NDArray[np.float64]
) -> Query:
    chosen = random.choice(STREAMS, size=int(random.integers(1, MOST_STREAMS + 1)), replace=False, p=streams)
    sources = [SENSORS[number] for number in sorted(chosen.tolist())]
    places = [(stream, f"a{number}") for stream in sources for number in range(ATTRIBUTES)]
    limits = int(random.integers(1, MOST_PREDICATES + 1))
    picked = random.choice(len(places), size=min(limits, len(places)), replace=False)
    conditions = [
        condition for place in picked.tolist() for condition in _between(places[place], *_portion(random, cells))
    ]
    wanted = min(int(random.integers(1, MOST_ATTRIBUTES + 1)), len(places))
    shown = [places[place] for place in sorted(random.choice(len(places), size=wanted, replace=False).tolist())]
    slide = int(random.choice(_SLIDES))
    window_of = {
        stream: Window(int(random.integers(100, 1001)), slide, int(random.integers(0, 10)) * 10) for stream in sources
    }
    origin = window_of[sources[0]].origin
    inputs = tuple(
        Input(stream, stream.name, Window(window_of[stream].range, slide, origin) if len(sources) > 1 else None)
        for stream in sources
    )
    return _query(name, inputs, conditions, shown)


def _portion(random: np.random.Generator, cells: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The part of an attribute's values that is asked for: about a cell that is as popular as its rank."""
    middle = (float(random.choice(_CELLS, p=cells)) + random.random()) / _CELLS
    width = random.uniform(0.1, 1.0)
    return max(0.0, middle - width / 2), min(1.0, middle + width / 2)


def _between(place: tuple[Stream, str], low: float, high: float) -> list[Expression]:
    column = Column(place[0].name, place[1], DOUBLE)
    return [
        Call(">=", (column, Literal(low, DOUBLE)), BOOLEAN),
        Call("<", (column, Literal(high, DOUBLE)), BOOLEAN),
    ]


def _query(
    name: str, inputs: tuple[Input, ...], conditions: Sequence[Expression], shown: Sequence[tuple[Stream, str]]
) -> Query:
    outputs = tuple(
        Output(f"c{number}", Column(stream.name, attribute, DOUBLE)) for number, (stream, attribute) in enumerate(shown)
    )
    where = conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions), BOOLEAN)
    return Query(name, Select(inputs, where, outputs, BIGINT), None)


#: What a template asks for: a kind of query, its streams, the attribute that is compared and the one that is shown.
_Template = tuple[str, tuple[Stream, ...], str, str]


def template_queries(count: int, seed: int, templates: int = 40) -> list[Query]:
    """Users who fill in the constants of a few templates: ranges, joins, and aggregates by a rounded attribute."""
    random = np.random.default_rng(seed)
    kinds = ("selection", "join", "aggregate")
    made: list[_Template] = []
    for number in range(templates):
        streams = random.choice(STREAMS, size=2, replace=False).tolist()
        compared, shown = (f"a{each}" for each in random.choice(ATTRIBUTES, size=2, replace=False))
        made.append((kinds[number % 3], tuple(SENSORS[each] for each in sorted(streams)), compared, shown))
    popular = POPULARITIES[1].weights(templates)
    chosen = random.choice(templates, size=count, p=popular).tolist()
    return [_filled(f"q{number}", made[each], random) for number, each in enumerate(chosen)]


def _filled(name: str, template: _Template, random: np.random.Generator) -> Query:
    kind, streams, compared, shown = template
    first = streams[0]
    low = round(float(random.random()), 2)
    high = low + round(float(random.uniform(0.05, 0.5)), 2)
    if kind == "selection":
        return _query(name, (Input(first, first.name),), _between((first, compared), low, high), [(first, shown)])
    if kind == "join":
        range_ = int(random.choice((200, 500, 1000)))
        inputs = tuple(Input(each, each.name, Window(range_)) for each in streams)
        return _query(name, inputs, _between((first, compared), low, high), [(each, shown) for each in streams])
    slide = int(random.choice((1_000, 2_000, 5_000, 10_000)))
    return _aggregate(name, first, compared, shown, slide, low)


def _aggregate(name: str, stream: Stream, compared: str, shown: str, slide: int, least: float) -> Query:
    """SELECT window_end, round(a), AVG(b) FROM s [RANGE 10 SECONDS SLIDE …] GROUP BY round(a) HAVING AVG(b) > …"""
    key = Call("round", (Column(stream.name, compared, DOUBLE), Literal(1, BIGINT)), DOUBLE)
    mean = AggregateRef(0, DOUBLE)
    outputs = (Output("end", WindowBound(True, BIGINT)), Output("key", KeyRef(0, DOUBLE)), Output("mean", mean))
    select = Select(
        inputs=(Input(stream, stream.name),),
        where=None,
        outputs=outputs,
        clock_type=BIGINT,
        window=Window(10_000, slide),
        keys=(key,),
        aggregates=(Aggregate("avg", (Column(stream.name, shown, DOUBLE),), DOUBLE),),
        having=Call(">", (mean, Literal(least, DOUBLE)), BOOLEAN),
    )
    return Query(name, select, "end")

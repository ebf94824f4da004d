"""The queries: ranges of 1 to 100 slides, slides of 1 to 60 units, four functions, half of them with a predicate.

A count and a seed give the same queries on every machine, and the first ten of a thousand are the ten.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

FUNCTIONS = ("SUM", "AVG", "MAX", "STDDEV")
MOST_SLIDES = 100
LARGEST_SLIDE = 60
SEED = 6


@dataclass(frozen=True, slots=True)
class Topic:
    """A stream: its columns by role, and the unit that windows are counted in."""

    name: str
    clock: str
    key: str
    value: str
    compared: str
    """The column that predicates are about, and between what their constants lie."""
    low: float
    high: float
    unit: str
    unit_seconds: int
    delay: int
    """How late rows may be, in units."""

    @property
    def unit_micros(self) -> int:
        return self.unit_seconds * 1_000_000

    @property
    def columns(self) -> dict[str, str]:
        """The columns with their types, as Spark and weft write them."""
        return {self.clock: "TIMESTAMP", self.key: "STRING", self.value: "DOUBLE", self.compared: "DOUBLE"}

    def thresholds(self, literals: int) -> list[float]:
        """So many constants, evenly spread."""
        step = (self.high - self.low) / (literals + 1)
        return [round(self.low + step * (number + 1), 6) for number in range(literals)]


READINGS = Topic("readings", "ts", "sensor", "temperature", "humidity", 0.0, 100.0, "SECOND", 1, delay=5)
#: The same stream with windows sixty times as long.
LONG_READINGS = Topic("long readings", "ts", "sensor", "temperature", "humidity", 0.0, 100.0, "MINUTE", 60, delay=1)
FLIGHTS = Topic("flights", "ts", "carrier", "dep_delay", "distance", 0.0, 2_500.0, "HOUR", 3_600, delay=1)
TOPICS = {topic.name: topic for topic in (READINGS, LONG_READINGS, FLIGHTS)}


@dataclass(frozen=True, slots=True)
class AggregateQuery:
    """FUNCTION(value) by key over a window, of all rows or of those above a threshold."""

    number: int
    function: str
    slide: int
    slides: int
    above: float | None

    @property
    def name(self) -> str:
        return f"q{self.number}"

    @property
    def range(self) -> int:
        return self.slide * self.slides


def draw(
    topic: Topic,
    count: int,
    literals: int,
    *,
    largest_slide: int = LARGEST_SLIDE,
    most_slides: int = MOST_SLIDES,
    seed: int = SEED,
) -> list[AggregateQuery]:
    """So many queries; every second one has a predicate with one of so many constants."""
    chance = random.Random(seed)
    thresholds = topic.thresholds(literals)
    drawn = []
    for number in range(count):
        function = chance.choice(FUNCTIONS)
        slide, slides = chance.randint(1, largest_slide), chance.randint(1, most_slides)
        above = chance.choice(thresholds)
        drawn.append(AggregateQuery(number, function, slide, slides, above if number % 2 else None))
    return drawn


def spread_sample(queries: list[AggregateQuery], size: int) -> list[int]:
    """The numbers of some queries, spread evenly over all by range/slide, which decides what a copied row costs."""
    if size >= len(queries):
        return [query.number for query in queries]
    ordered = sorted(queries, key=lambda query: (query.slides, query.number))
    step = len(ordered) / size
    return sorted(ordered[int(step * (place + 0.5))].number for place in range(size))


def weft_select(topic: Topic, query: AggregateQuery) -> str:
    """The query for weft."""
    where = "" if query.above is None else f" WHERE {topic.compared} > {query.above}"
    return (
        f"SELECT window_end, {topic.key}, {query.function}({topic.value}) AS x FROM {stream_name(topic)} "
        f"[RANGE {query.range} {topic.unit}S SLIDE {query.slide} {topic.unit}S]{where} GROUP BY {topic.key}"
    )


def weft_stream(topic: Topic, folder: str) -> str:
    """The stream for weft: one file in each cycle."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in topic.columns.items())
    return (
        f"CREATE STREAM {stream_name(topic)} ({columns}) WATERMARK FOR {topic.clock} AS {topic.clock} - "
        f"INTERVAL {topic.delay} {topic.unit}S USING parquet OPTIONS (path '{folder}', maxFilesPerTrigger '1')"
    )


def stream_name(topic: Topic) -> str:
    return topic.name.replace(" ", "_")

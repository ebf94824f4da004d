"""Joins of the flights out of New York in 2013 with the weather there: real rows, differing predicates and windows."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from bench.network_workloads.query import WorkloadQuery
from weft.demo import streams, write_parquet

SEED = 2013

_FIRST_DAY = datetime(2013, 1, 1, tzinfo=UTC)

_FLIGHT = ("f.dep_delay > {0}", "f.arr_delay > {0}", "f.dep_delay > {0} AND f.distance > {1}")
_WEATHER = (
    "w.wind_speed > {2}",
    "w.precip > {3}",
    "w.visib < {4}",
    "w.wind_speed > {2} AND w.visib < {4}",
    "w.temp < {5}",
)
_HOURS = (1, 2, 3, 6)


def flight_streams(folder: Path, days: int, step: str) -> str:
    """The two streams from the first of January on, so many days of them, replayed by steps of event time."""
    flights, weather = (_first_days(source, days) for source in write_parquet(folder))
    return streams(flights, weather, step)


def _first_days(source: Path, days: int) -> Path:
    part = source.with_name(f"{source.stem}-{days}.parquet")
    pq.write_table(pq.read_table(source, filters=[("ts", "<", _FIRST_DAY + timedelta(days))]), part)
    return part


def flight_joins(count: int = 200, seed: int = SEED) -> list[WorkloadQuery]:
    """So many joins; more of them begin with the same ones."""
    chance = random.Random(seed)
    return [WorkloadQuery(f"w{number:03d}", _join(chance)) for number in range(count)]


def _join(chance: random.Random) -> str:
    values = (
        chance.choice((30, 45, 60, 90, 120, 180)),
        chance.choice((500, 1_000, 2_000)),
        chance.choice((15, 20, 25, 30)),
        chance.choice(("0.0", "0.1", "0.3")),
        chance.choice((1, 3, 5)),
        chance.choice((20, 32)),
    )
    flight, weather = chance.choice(_FLIGHT).format(*values), chance.choice(_WEATHER).format(*values)
    before, after = chance.choice(_HOURS), chance.choice(_HOURS)
    carrier = f" AND f.carrier = '{chance.choice(('UA', 'B6', 'EV', 'DL', 'AA'))}'" if chance.random() < 0.3 else ""
    listed = "f.ts, f.carrier, f.flight, f.origin, f.dest, f.dep_delay, w.wind_speed, w.precip, w.visib"
    return (
        f"SELECT {listed} FROM flights [RANGE {after} HOURS] f JOIN weather [RANGE {before} HOURS] w "
        f"ON f.origin = w.origin WHERE {flight} AND {weather}{carrier}"
    )

"""What runs for an hour: orders as JSON and quotes as Parquet, and queries with state of every kind over them."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

#: Rows in each file, and how many seconds pass between two files of a stream.
ORDERS, QUOTES, PAUSE = 3_000, 400, 2.0
_SYMBOLS, _BUYERS = 50, 5_000

#: Answers of this query are counted: it selects every order of one kind.
COUNTED = "cheap"
_CHEAP = 10


def statements(data: Path) -> Iterator[str]:
    """The streams and all queries: 100 windowed aggregates, a join, DISTINCT, MEDIAN and others."""
    yield (
        "CREATE STREAM orders (ts TIMESTAMP, symbol STRING, buyer BIGINT, price DOUBLE) "
        f"WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS USING json OPTIONS (path '{data / 'orders'}')"
    )
    yield (
        "CREATE STREAM quotes (ts TIMESTAMP, symbol STRING, ask DOUBLE) "
        f"WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS USING parquet OPTIONS (path '{data / 'quotes'}')"
    )
    functions = ("AVG(price)", "MAX(price)", "MIN(price)", "SUM(price)", "COUNT(*)", "STDDEV_SAMP(price)")
    for number in range(100):
        minutes, function = 1 + number % 15, functions[number % len(functions)]
        yield (
            f"CREATE CONTINUOUS QUERY w{number} AS SELECT symbol, {function} AS x "
            f"FROM orders [RANGE {minutes} MINUTES SLIDE 10 SECONDS] WHERE price > {number % 10 * 10} GROUP BY symbol"
        )
    yield (
        "CREATE CONTINUOUS QUERY met AS SELECT o.ts, o.symbol, o.price, q.ask FROM orders o [RANGE 10 SECONDS], "
        "quotes q [RANGE 10 SECONDS] WHERE o.symbol = q.symbol AND o.price > 99 AND q.ask > 90"
    )
    yield "CREATE CONTINUOUS QUERY buyers AS SELECT DISTINCT buyer FROM orders WHERE price > 90 RETAIN 1 MINUTE"
    yield "CREATE CONTINUOUS QUERY middle AS SELECT MEDIAN(price) AS m FROM orders [RANGE 1 MINUTE SLIDE 30 SECONDS]"
    yield (
        "CREATE CONTINUOUS QUERY traded AS SELECT COUNT(DISTINCT symbol) AS n "
        "FROM quotes [RANGE 1 MINUTE SLIDE 1 MINUTE]"
    )
    yield "CREATE CONTINUOUS QUERY totals AS SELECT symbol, SUM(price) AS paid FROM orders GROUP BY symbol"
    yield f"CREATE CONTINUOUS QUERY {COUNTED} AS SELECT ts, symbol, price FROM orders WHERE price < {_CHEAP}"


class Feed:
    """Writes files of both streams, one after the other, as a program that logs orders would."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._random = random.Random(1)
        self._files = 0
        #: How many rows the counted query has to answer.
        self.cheap = 0
        for name in ("orders", "quotes"):
            (data / name).mkdir(parents=True)

    def write(self) -> None:
        """Write the next file of each stream, with rows of this moment."""
        self._files += 1
        now = datetime.now(UTC)
        draw = self._random
        orders = [
            {
                "ts": now.isoformat(),
                "symbol": f"s{draw.randrange(_SYMBOLS)}",
                "buyer": draw.randrange(_BUYERS),
                "price": draw.randrange(10_000) / 100,
            }
            for _ in range(ORDERS)
        ]
        self.cheap += sum(float(str(each["price"])) < _CHEAP for each in orders)
        quotes = {
            "ts": pa.array([now] * QUOTES, pa.timestamp("us", "UTC")),
            "symbol": [f"s{draw.randrange(_SYMBOLS)}" for _ in range(QUOTES)],
            "ask": [draw.randrange(10_000) / 100 for _ in range(QUOTES)],
        }
        hidden = self._data / f".{self._files}"
        hidden.write_text("".join(json.dumps(each) + "\n" for each in orders))
        os.replace(hidden, self._data / "orders" / f"{self._files:06d}.json")
        pq.write_table(pa.table(quotes), hidden)
        os.replace(hidden, self._data / "quotes" / f"{self._files:06d}.parquet")

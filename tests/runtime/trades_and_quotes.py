"""Two streams in files, one for each cycle, for tests whose engine is a process of its own."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STREAMS = {"trades": "n BIGINT, sym STRING, price DOUBLE, qty BIGINT", "quotes": "n BIGINT, sym STRING, bid DOUBLE"}

Rows = dict[str, list[tuple[Any, ...]]]


def stream_statement(name: str, folder: Path | None = None) -> str:
    """The declaration of a stream over its files, of which a cycle takes one, or over memory."""
    using = f"json OPTIONS (path '{folder / name}', maxFilesPerTrigger '1')" if folder else "memory"
    return f"CREATE STREAM {name} ({STREAMS[name]}) WATERMARK FOR n AS n - 5 USING {using}"


def arrivals(cycles: int, seed: int) -> list[Rows]:
    """The rows of each cycle: clocks go on by fifteen a cycle, some rows are out of order and some are late."""
    chance = random.Random(seed)
    found = []
    for cycle in range(cycles):
        clocks = {name: [15 * cycle + chance.randint(-12, 14) for _ in range(8)] for name in STREAMS}
        prices = (1.5, 4.0, 9.25, None)
        trades = [(n, chance.choice("abc"), chance.choice(prices), chance.randint(1, 4)) for n in clocks["trades"]]
        quotes = [(n, chance.choice("abc"), chance.choice((1.0, 3.5, 8.0))) for n in clocks["quotes"]]
        found.append({"trades": trades, "quotes": quotes})
    return found


def write_files(folder: Path, cycles: Sequence[Rows]) -> None:
    """One file per stream and cycle; Spark takes them in the order of their times."""
    for name, columns in STREAMS.items():
        names = [column.split()[0] for column in columns.split(", ")]
        (folder / name).mkdir(parents=True)
        for cycle, rows in enumerate(cycles):
            file = folder / name / f"{cycle}.json"
            file.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows[name]))
            os.utime(file, (1_000_000 + cycle, 1_000_000 + cycle))

"""What the oracle says of a federation's log: its statements and its whole batches, in the log's order."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.oracle_script import Script
from weft.federation.live.messages import BatchPublished, Declared, Entry, QueryCreated, QueryDropped


def answers_of_log(entries: Iterable[tuple[int, Entry]], incoming: Path) -> dict[str, list[list[tuple[Any, ...]]]]:
    """By query and birth the batches of answers that are not empty. `incoming` has the files that became batches."""
    script = Script()
    names: dict[str, str] = {}
    found: dict[str, list[list[tuple[Any, ...]]]] = {}
    for place, entry in entries:
        match entry:
            case Declared(text=text):
                script.run(text)
            case QueryCreated(query=query, text=text):
                script.run(text)
                names[query] = f"{query}@{place}"
            case QueryDropped(query=query):
                script.run(f"DROP CONTINUOUS QUERY {query}")
            case BatchPublished(stream=stream, number=number):
                rows = pq.read_table(incoming / stream / f"{number:05d}.parquet").to_pylist()
                for name, answers in script.cycle(**{stream: [tuple(row.values()) for row in rows]}).items():
                    if answers:
                        found.setdefault(names[name], []).append(answers)
    return found

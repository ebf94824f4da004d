"""What a provider needs of an engine: one that runs the cycles it is told to run, on the rows it is told to take.

An engine belongs to a directory and goes on where it was. `applied` is the place in the log up to which it has been
told everything; it changes together with the queries, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from weft.algebra import Query, Stream


class AnswerSink(Protocol):
    """Takes the answers of a cycle before it is committed, and hears of it when it is."""

    def write(self, cycle: int, answers: Mapping[str, tuple[pa.Table, int | None]]) -> None:
        """The rows and the watermark of each query that has answered. A second call with the same cycle replaces it."""

    def committed(self, cycle: int) -> None:
        """The cycle is true now."""


class EngineHandle(Protocol):
    """An engine in a directory."""

    @property
    def applied(self) -> int:
        """The place in the log up to which all was carried out."""

    @property
    def last_cycle(self) -> int:
        """The newest cycle that is committed; −1 before the first."""

    def change(
        self,
        place: int | None = None,
        *,
        streams: Sequence[Stream] = (),
        create: Sequence[Query] = (),
        drop: Sequence[str] = (),
    ) -> None:
        """Declare streams that are new, drop and create queries, and note the place if given: all of it or nothing."""

    def cycle(self, number: int, rows: Mapping[str, Path], clocks: Mapping[str, int]) -> None:
        """Run a cycle on Parquet files, by stream, after which the streams' clocks are at least these.

        A cycle that is committed already is not run again.
        """

    def close(self) -> None:
        """Let go of the directory."""


class EngineMaker(Protocol):
    """Makes or opens the engine of a directory, which gives its answers to a sink."""

    def __call__(self, directory: Path, answers: AnswerSink) -> EngineHandle: ...

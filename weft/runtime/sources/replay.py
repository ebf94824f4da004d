"""A source that replays files: the same rows in the same batches, every time.

    CREATE STREAM flights (…) WATERMARK FOR ts AS ts USING replay OPTIONS (path 'flights.parquet', step '1 day')

The rows are sorted by the stream's clock and cut into one file per `step` of it; each cycle takes the next file. With
`speed` the files appear at a pace: at a speed of 3600, an hour of the clock takes a second. Without it they are all
there at once.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.algebra import Stream
from weft.algebra.properties import clock_type
from weft.algebra.types import TIMESTAMP
from weft.arrays.arrow_types import arrow_type
from weft.files.atomic import draft_path, flush_all, private_folder, publish
from weft.runtime.spark.engine_errors import SourceError
from weft.runtime.state.checksums import Seal, Seals, damaged, fault, opened, seal_of_file, sealed
from weft.sql import durations

FORMAT = "replay"

#: The record of a replay's steps.
_STEPS = "steps.json"

#: The modification time of the first file: Spark takes files in the order of these, so they must differ and grow.
_FIRST_MTIME = 1_000_000_000


def prepare(stream: Stream, folder: Path) -> Path:
    """Return the folder of the steps of the stream's files; they are cut once, and their seals are in `steps.json`."""
    ready, waiting = folder / "ready", folder / "waiting"
    target = waiting if "speed" in dict(stream.options) else ready
    if not folder.exists():
        # What is not cut to the end, or not on disk, does not have the name.
        draft = draft_path(folder)
        _cut_into(stream, draft, target.name)
        publish(draft, folder)
    elif damages := _damages(folder):
        _mend(stream, folder, target, damages)
    return ready


def _cut_into(stream: Stream, folder: Path, target: str) -> None:
    """Cut the stream's files into steps in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("ready", "waiting"):
        private_folder(folder / name)
    _cut(_sorted(stream), stream, folder / target)
    seals = {file.name: seal_of_file(file) for file in (folder / target).iterdir()}
    (folder / _STEPS).write_bytes(sealed(_STEPS, seals))


def _steps(folder: Path) -> Seals:
    """The seals of all steps of a replay, by name."""
    file = folder / _STEPS
    if not file.exists():
        raise damaged(str(file), "is missing")
    steps: Seals = opened(file.read_bytes(), str(file), Seals)
    return steps


def _damages(folder: Path) -> dict[str, str]:
    """What is wrong with the steps of a replay that are not as they were cut, by name."""
    steps = _steps(folder)
    for file in [*(folder / "waiting").glob("*"), *(folder / "ready").glob("*")]:
        if file.name not in steps:
            raise damaged(str(file), "does not belong to the project")

    def seal_now(name: str) -> Seal | None:
        # A step may be on its way from `waiting` to `ready`, not back.
        for place in ("waiting", "ready"):
            try:
                return seal_of_file(folder / place / name)
            except FileNotFoundError:
                continue
        return None

    wrong = {name: fault(seal, seal_now(name)) for name, seal in steps.items()}
    return {name: text for name, text in wrong.items() if text is not None}


def _mend(stream: Stream, folder: Path, target: Path, damages: Mapping[str, str]) -> None:
    """Cut the stream's files once more, for the steps that are damaged; SourceError if they are not the same now."""
    draft = draft_path(folder)
    _cut_into(stream, draft, target.name)
    steps, cut = _steps(folder), _steps(draft)
    for name, wrong in damages.items():
        if cut.get(name) != steps[name]:
            raise SourceError(
                f"stream '{stream.name}' is replayed from {target / name}, which {wrong}, and its source has changed "
                "since it was cut into steps; restore the project directory from a copy"
            )
        place = folder / "ready" / name
        (draft / target.name / name).replace(place if place.exists() else target / name)
    flush_all(folder)
    shutil.rmtree(draft)


def feed(stream: Stream, folder: Path, stopped: threading.Event) -> None:
    """Let the waiting files appear at the stream's speed, until there are none or it is stopped."""
    speed = float(dict(stream.options)["speed"])
    waiting = sorted((folder / "waiting").glob("*.parquet"))
    if not waiting:
        return
    started, first = time.monotonic(), int(waiting[0].stem.split("-")[1])
    for file in waiting:
        due = started + (int(file.stem.split("-")[1]) - first) / 1e6 / speed
        if stopped.wait(max(0.0, due - time.monotonic())):
            return
        file.rename(folder / "ready" / file.name)


def _sorted(stream: Stream) -> pa.Table:
    # It brings pandas along, which takes longer to load than all of Arrow; most projects replay nothing.
    from pyarrow.dataset import dataset

    options = dict(stream.options)
    path = Path(options.get("path", ""))
    if not path.exists():
        raise SourceError(f"stream '{stream.name}' replays '{path}', which does not exist; check OPTIONS (path '…')")
    kind = options.get("format") or (path.suffix.lstrip(".") or "parquet")
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in stream.fields])
    try:
        table = dataset(path, format=kind).to_table(columns=schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise SourceError(f"stream '{stream.name}' cannot replay '{path}' as {kind}: {reason}") from error
    return table.sort_by(stream.clock)


def _cut(table: pa.Table, stream: Stream, target: Path) -> None:
    """Write one file per step, named by its number and the clock at which the step ends.

    Rows without a clock come with the first step, so that they are set aside like those of any other source.
    """
    step = _step(stream)
    clocks = table[stream.clock]
    timed, timeless = table.filter(pc.is_valid(clocks)), table.filter(pc.is_null(clocks))
    numbers = pc.cast(timed[stream.clock], pa.int64()).to_numpy() // step
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for number, (begin, end) in enumerate(pairwise(starts)):
        rows = timed.slice(begin, end - begin)
        if number == 0:
            rows = pa.concat_tables([timeless, rows])
        if rows.num_rows == 0:
            continue
        ends = (int(numbers[begin]) + 1) * step if begin < end else 0
        file = target / f"{number:06d}-{ends}.parquet"
        pq.write_table(rows, file)
        os.utime(file, (_FIRST_MTIME + number, _FIRST_MTIME + number))


def _step(stream: Stream) -> int:
    text = dict(stream.options).get("step")
    if text is None:
        raise SourceError(f"stream '{stream.name}' needs a step to replay by: OPTIONS (path '…', step '1 day')")
    try:
        step = durations.parse(text) if clock_type(stream) == TIMESTAMP else int(text)
        if step <= 0:
            raise ValueError("a step is longer than nothing")
        return step
    except (durations.BadDuration, ValueError) as bad:
        raise SourceError(f"stream '{stream.name}' cannot replay by steps of '{text}': {bad}") from None

"""What the machine needs: one process, pyarrow to read, loops over arrays, no more arithmetic than the answers take.

    rows        one look at each: fragment, signature, key; count, sum, sum of squares and maximum are updated
    fragments   for each threshold, prefix sums over time, and maxima of spans of 1, 2, 4, … fragments
    answers     a difference of two prefix sums, or the larger of two maxima, for each key

Fragments are as long as the unit of the windows, since some query slides by one of them. Values are taken from a fixed
middle, so that squares stay small. What it lacks is everything else: late rows, recovery, changes, other functions.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.aggregate_measurements import answers
from bench.aggregate_measurements.data import files_of
from bench.aggregate_measurements.jobs import Job, serve
from bench.aggregate_measurements.workload import FUNCTIONS, AggregateQuery, Topic
from bench.contest import Mark, mark, plain

_COUNT, _SUM, _SQUARES, _MAX = range(4)
_MIDDLE = 20.0

Floats = NDArray[np.float64]


def contestant(job: Job) -> dict[str, Any]:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    checked, _ = _run(job, job.small, job.checked(), collect=True)
    answers.write(checked, job.answers)
    _, marks = _run(job, job.folder, job.queries(), collect=False)
    return {"runs": [plain(marks)]}


def _run(job: Job, folder: str, queries: list[AggregateQuery], collect: bool) -> tuple[list[pa.Table], list[Mark]]:
    files = files_of(folder)
    arithmetic = Arithmetic(job.about, job.about.thresholds(job.literals), *_extent(files, job.about))
    tables: list[pa.Table] = []
    marks = []
    for file in files:
        rows = arithmetic.take(pq.read_table(file, use_threads=False, read_dictionary=[job.about.key]))
        for query in queries:
            found = arithmetic.answer(query)
            if collect:
                tables.append(arithmetic.as_table(query, found))
        arithmetic.done()
        marks.append(mark(rows))
    return tables, marks


def _extent(files: list[Any], topic: Topic) -> tuple[int, int]:
    """The first fragment, and how many there are in all, from the files' own statistics."""
    clocks = []
    for file in (files[0], files[-1]):
        metadata = pq.ParquetFile(file).metadata
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(0).statistics
            clocks += [statistics.min, statistics.max]
    first, last = (int(clock.timestamp()) // topic.unit_seconds for clock in (min(clocks), max(clocks)))
    return first, last - first + 1


class Arithmetic:
    """Partials of all fragments so far, and answers from them."""

    def __init__(self, topic: Topic, thresholds: list[float], first: int, fragments: int, keys: int = 128) -> None:
        self._topic, self._first, self._fragments = topic, first, fragments
        self._thresholds = np.array(thresholds)
        self._keys: dict[str, int] = {}
        groups = len(thresholds) + 1
        # partials[s, f, g, k]: statistic, fragment, signature, key; then, for each threshold, those above it.
        self._partials = np.zeros((4, fragments, groups, keys))
        self._partials[_MAX] = -np.inf
        self._prefixes = np.zeros((3, fragments + 1, groups, keys))
        levels = max(1, fragments.bit_length())
        self._spans = np.full((levels, fragments, groups, keys), -np.inf)
        self._complete, self._closed, self._watermark = 0, 0, 0

    def take(self, table: pa.Table) -> int:
        """Take in the rows of a file and go on to its watermark."""
        topic = self._topic
        clock = table[topic.clock].combine_chunks().cast(pa.int64()).to_numpy()
        keys = table[topic.key].combine_chunks()
        keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        known = np.array([self._keys.setdefault(name, len(self._keys)) for name in keys.dictionary.to_pylist()])
        _reduce(
            clock,
            keys.indices.to_numpy(),
            known,
            table[topic.value].combine_chunks().to_numpy(),
            table[topic.compared].combine_chunks().to_numpy(),
            self._thresholds,
            topic.unit_micros,
            self._first,
            self._partials,
        )
        watermark = int(clock.max()) - topic.delay * topic.unit_micros
        self._watermark = watermark // topic.unit_micros
        complete = min(max(self._watermark - self._first, self._complete), self._fragments)
        _extend(self._partials, self._prefixes, self._spans, self._complete, complete)
        self._complete = complete
        return len(clock)

    def answer(self, query: AggregateQuery) -> tuple[NDArray[np.int64], Floats, Floats]:
        """The instances of a query that have closed: their ends, and for each key the rows in it and the value."""
        group = 0 if query.above is None else 1 + int(np.searchsorted(self._thresholds, query.above))
        slide = query.slide
        before = self._closed or self._first
        ends = np.arange((before // slide + 1) * slide, self._watermark + 1, slide)
        function = FUNCTIONS.index(query.function)
        counts, values = _answer(
            self._prefixes, self._spans, ends - self._first, query.range, group, function, len(self._keys)
        )
        return ends, counts, values

    def done(self) -> None:
        """All queries have answered what has closed."""
        self._closed = self._watermark

    def as_table(self, query: AggregateQuery, found: tuple[NDArray[np.int64], Floats, Floats]) -> pa.Table:
        """Answers as all contestants write them."""
        ends, counts, values = found
        at, key = np.nonzero(counts)
        names = pa.array(list(self._keys)).take(pa.array(key))
        numbers = pa.array(values[at, key], mask=np.isnan(values[at, key]))
        return answers.as_table(query.number, pa.array(ends[at] * self._topic.unit_micros), names, numbers)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _reduce(clock, keys, known, values, compared, thresholds, unit, first, partials) -> None:  # type: ignore[no-untyped-def]
    for row in range(len(clock)):
        fragment = clock[row] // unit - first
        # The number of thresholds that the row is above.
        group = np.searchsorted(thresholds, compared[row], side="left")
        key = known[keys[row]]
        value = values[row] - _MIDDLE
        partials[_COUNT, fragment, group, key] += 1.0
        partials[_SUM, fragment, group, key] += value
        partials[_SQUARES, fragment, group, key] += value * value
        partials[_MAX, fragment, group, key] = max(partials[_MAX, fragment, group, key], value)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _extend(partials, prefixes, spans, begin, end) -> None:  # type: ignore[no-untyped-def]
    """Prefix sums and maxima of spans for fragments that are complete; place 0 is for all rows, t for threshold t."""
    groups, keys = partials.shape[2], partials.shape[3]
    for fragment in range(begin, end):
        for key in range(keys):
            above = np.zeros(3)
            largest = -np.inf
            # From the highest signature down: the rows above threshold g are those with signatures beyond g.
            for signature in range(groups - 1, -1, -1):
                for statistic in range(3):
                    above[statistic] += partials[statistic, fragment, signature, key]
                    prefixes[statistic, fragment + 1, signature, key] = (
                        prefixes[statistic, fragment, signature, key] + above[statistic]
                    )
                largest = max(largest, partials[_MAX, fragment, signature, key])
                spans[0, fragment, signature, key] = largest
        # A span of 2^l fragments that ends here is two halves.
        length = 1
        for level in range(1, spans.shape[0]):
            half, length = length, 2 * length
            if fragment + 1 < length:
                break
            spans[level, fragment] = np.maximum(spans[level - 1, fragment], spans[level - 1, fragment - half])


@numba.njit(cache=True)
def _answer(prefixes, spans, ends, reach, group, function, keys):  # type: ignore[no-untyped-def]
    counts, values = np.zeros((len(ends), keys)), np.zeros((len(ends), keys))
    for at in range(len(ends)):
        end = ends[at]
        start = max(end - reach, 0)
        level = 0
        while 2 << level <= end - start:
            level += 1
        for key in range(keys):
            count = prefixes[_COUNT, end, group, key] - prefixes[_COUNT, start, group, key]
            counts[at, key] = count
            if count == 0:
                continue
            if function == 2:
                older = spans[level, start + (1 << level) - 1, group, key]
                values[at, key] = max(spans[level, end - 1, group, key], older) + _MIDDLE
                continue
            total = prefixes[_SUM, end, group, key] - prefixes[_SUM, start, group, key]
            if function == 0:
                values[at, key] = total + count * _MIDDLE
            elif function == 1:
                values[at, key] = total / count + _MIDDLE
            elif count == 1:
                values[at, key] = np.nan
            else:
                squares = prefixes[_SQUARES, end, group, key] - prefixes[_SQUARES, start, group, key]
                values[at, key] = np.sqrt(max(0.0, (squares - total * total / count) / (count - 1)))
    return counts, values


if __name__ == "__main__":
    serve(contestant)

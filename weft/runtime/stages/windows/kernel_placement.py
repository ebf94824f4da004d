"""Places kernels in the driver or on the executors, by the keys that queries of a stream group by.

All queries of a stream with the same grouping keys are in one place. In the driver their windows stay from cycle to
cycle, and a cycle costs what it brings. On the executors they are rebuilt from the partial log (`executors.py`): a
cycle costs what is live, but no single machine has to hold it. Answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from weft.catalog import Catalog
from weft.runtime.stages.windows.partials import SLICE, Partials
from weft.runtime.stages.windows.woven_queries import Woven
from weft.runtime.state.commits import Segment
from weft.sql.settings import Settings

KeySet = tuple[str, ...]


@dataclass(frozen=True)
class Placement:
    """Where the kernels of a key set live, and why."""

    on_executors: bool
    reason: str
    #: About its number of live partials.
    partials: int = 0

    def __str__(self) -> str:
        return f"{'on the executors' if self.on_executors else 'in the driver'}: {self.reason}"

    def displaced(self) -> Placement:
        """On the executors, since the driver lacks the memory."""
        return Placement(True, "its windows need more memory than max_state_mb allows in the driver", self.partials)


def placement_of(keys: KeySet, partials: int, settings: Settings, on_executors_now: bool = False) -> Placement:
    """Where a key set belongs that has a number of live partials, one for each key and slice.

    Between half the limit and the limit it stays where it is.
    """
    if not keys:
        return Placement(False, "without keys there is one group", partials)
    if settings.kernels != "auto":
        return Placement(settings.kernels == "executors", f"kernels = {settings.kernels}", partials)
    limit = settings.max_driver_partials
    away = partials > (limit // 2 if on_executors_now else limit)
    count = f"{partials:,} live partials" if away else f"at most {partials:,} live partials"
    return Placement(away, f"{count}, max_driver_partials = {limit:,}", partials)


def fits_the_driver(segments: Iterable[Segment], settings: Settings) -> bool:
    """Whether all partials of some files certainly belong into the driver, without reading the files."""
    rows = sum(each.rows for each in segments)
    return settings.kernels != "executors" and 2 * rows <= settings.max_driver_partials


def recorded_placement(keys: KeySet, recorded: Mapping[str, float], settings: Settings) -> Placement:
    """Where a key set lived in the newest cycle, for EXPLAIN, and why.

    `recorded` are the statistics `executors:<stream>` of that cycle: live partials, by the name of the key set.
    """
    partials = recorded.get(", ".join(keys))
    known = placement_of(keys, int(partials or 0), settings, on_executors_now=partials is not None)
    if partials is not None:
        return known if known.on_executors else known.displaced()
    return Placement(False, "few live partials") if keys and settings.kernels == "auto" else known


#: A sentence about where the kernels of a stream's key set live and why; None if that needs no saying.
PlacementNotes = Callable[[str, KeySet], str | None]


def no_placement_note(stream: str, keys: KeySet) -> str | None:
    """No note: the queries are not those of a project, and nothing is known of their placement."""
    return None


def recorded_placements(catalog: Catalog) -> PlacementNotes:
    """Notes on the placement of a project's key sets, for EXPLAIN; none where few partials are in the driver."""
    settings, newest = catalog.settings(), catalog.latest_statistics()

    def note(stream: str, keys: KeySet) -> str | None:
        record, cycle = newest.get(f"executors:{stream}"), newest.get(f"stream:{stream}")
        # A cycle in which nothing is on the executors has no record of it.
        is_new = record is not None and cycle is not None and record.cycle == cycle.cycle
        host = recorded_placement(keys, record.numbers if record and is_new else {}, settings)
        return str(host) if host.on_executors or (keys and settings.kernels != "auto") else None

    return note


class Placements:
    """Where the kernels of all key sets live, by stream, decided again in each cycle."""

    def __init__(self, settings: Settings, read: Callable[[Segment], Partials]) -> None:
        self.settings, self._read = settings, read
        self.by_stream: dict[str, dict[KeySet, Placement]] = {}
        #: The key sets that the driver had no room for, with the queries of that time.
        self._displaced: dict[tuple[str, KeySet], Mapping[str, Woven]] = {}
        #: The partials of a key set in the newest segment of a stream.
        self._newest: dict[tuple[str, KeySet], tuple[Segment, int]] = {}

    def place(
        self, stream: str, queries: Mapping[str, Woven], on_executors_now: Set[KeySet], segments: Sequence[Segment]
    ) -> frozenset[KeySet]:
        """The key sets of a stream's queries whose kernels live on the executors."""
        places = self.by_stream[stream] = {}
        for keys in dict.fromkeys(each.keys for each in queries.values() if not each.is_running):
            partials = self._live_partials(stream, keys, segments)
            place = placement_of(keys, partials, self.settings, keys in on_executors_now)
            places[keys] = place.displaced() if self._displaced.get((stream, keys)) == queries else place
        return frozenset(keys for keys, place in places.items() if place.on_executors)

    def displace(self, stream: str, keys: KeySet, queries: Mapping[str, Woven]) -> None:
        """Place a key set on the executors, as long as the queries are these."""
        self._displaced[stream, keys] = queries
        self.by_stream[stream][keys] = self.by_stream[stream][keys].displaced()

    def _live_partials(self, stream: str, keys: KeySet, segments: Sequence[Segment]) -> int:
        """The slices and keys of a key set in a log: at most its rows; if these are many, estimated from the newest
        segment."""
        rows = sum(each.rows for each in segments)
        if not keys or self.settings.kernels != "auto" or rows <= self.settings.max_driver_partials // 2:
            return rows
        newest, known = segments[-1], self._newest.get((stream, keys))
        if known is None or known[0] != newest:
            known = self._newest[stream, keys] = newest, slices_and_keys(keys, self._read(newest))
        return rows * known[1] // newest.rows


def slices_and_keys(keys: KeySet, partials: Partials) -> int:
    """The number of different slices and keys among some partials; 0 if they do not have the keys."""
    if not partials.has((), keys):
        return 0
    names = [SLICE, *(f"k{partials.layout.keys.index(key)}" for key in keys)]
    return int(partials.table.select(names).group_by(names).aggregate([]).num_rows)

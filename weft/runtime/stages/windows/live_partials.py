"""How many partials of a stream are live, by key set: what decides whether their windows fit into the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.plan.nodes import KeySet
from weft.runtime.stages.windows.partials import SLICE, Partials
from weft.runtime.state.commits import Segment


@dataclass
class LivePartials:
    """Estimates live partials from the newest segment of a stream's log."""

    _read: Callable[[Segment], Partials]
    #: The slices and keys of a key set in the newest segment of a stream.
    _newest: dict[tuple[str, KeySet], tuple[Segment, int]] = field(default_factory=dict)

    def partials(self, stream: str, keys: KeySet, segments: Sequence[Segment]) -> int:
        """The slices and keys of a key set in a log: at most its rows, and about as many of them as in its newest
        segment."""
        rows = sum(each.rows for each in segments)
        if not keys:
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

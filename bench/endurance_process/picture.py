"""The picture: memory of both processes, and how long cycles take, over the time of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from bench.charts import LIMIT, OTHER, WEFT, canvas

if TYPE_CHECKING:
    from bench.endurance import Cycle, Sample


def endurance(samples: Sequence[Sample], cycles: Sequence[Cycle]) -> Figure:
    """Memory on the left, cycles on the right."""
    figure, (memory, seconds) = canvas(2, width=5.6)
    minutes = [each.minute for each in samples]
    memory.plot(minutes, [each.python_mb for each in samples], color=WEFT, label="Python, resident")
    memory.plot(minutes, [each.java_mb for each in samples], color=OTHER, label="Java, resident")
    memory.set(title="Memory in MB", xlabel="minutes", ylim=(0, None))
    memory.legend(frameon=False)
    seconds.plot([each.minute for each in cycles], [each.seconds for each in cycles], ".", color=LIMIT, markersize=3)
    seconds.set(title="Seconds of each cycle", xlabel="minutes", ylim=(0, None))
    return figure

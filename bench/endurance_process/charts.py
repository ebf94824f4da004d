"""The picture: memory of both processes, and how long cycles take, over the time of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")  # before pyplot: benchmarks run where there is no screen

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from bench.endurance import Cycle, Sample

_PYTHON, _JAVA, _CYCLES = "#00798c", "#e8963e", "#9a9a9a"


def endurance(samples: Sequence[Sample], cycles: Sequence[Cycle]) -> Figure:
    """Memory on the left, cycles on the right."""
    figure, (memory, seconds) = plt.subplots(1, 2, figsize=(11.2, 4.2), layout="constrained")
    minutes = [each.minute for each in samples]
    memory.plot(minutes, [each.python_mb for each in samples], color=_PYTHON, label="Python, resident")
    memory.plot(minutes, [each.java_mb for each in samples], color=_JAVA, label="Java, resident")
    memory.set(title="Memory in MB", xlabel="minutes", ylim=(0, None))
    memory.legend(frameon=False)
    seconds.plot([each.minute for each in cycles], [each.seconds for each in cycles], ".", color=_CYCLES, markersize=3)
    seconds.set(title="Seconds of each cycle", xlabel="minutes", ylim=(0, None))
    for panel in (memory, seconds):
        panel.grid(visible=True, color="#e4e4e4", linewidth=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure

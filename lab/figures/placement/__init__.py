"""Operator placement within a provider: the figures of the COSMOS thesis's chapter 6, in the simulated cluster.

    python -m lab.figures.placement [--quick]

setting.py          how large and how long runs are, and what is done to them
partner_bounds.py   6.5: how many partners a node has
operators.py        6.6: whole fragments against single operators
strategies.py       6.7: what is given away, and the traffic that makes
changes.py          6.8, 6.9: streams that become faster and slower again
other_work.py       6.10, 6.11: other work on some nodes, and the weight of the load filter
shown.py            tables and pictures, the thesis's words beside our figures

`measure(effort)` runs all of it, with the efforts QUICK and FULL; what it returns has `ratios` and `details`; `show`
prints tables and `draw` makes pictures. Times are those of the simulation, so another machine finds the same.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

from bench import report
from lab.figures.placement import changes, operators, other_work, partner_bounds, shown, strategies
from lab.figures.placement.changes import Changes
from lab.figures.placement.operators import Operators
from lab.figures.placement.other_work import OtherWork
from lab.figures.placement.partner_bounds import Bound
from lab.figures.placement.setting import FULL, QUICK, Effort
from lab.figures.placement.strategies import Strategies

__all__ = ["FULL", "QUICK", "Found", "draw", "measure", "show"]

DEFINITIONS = {
    "settle_seconds": "seconds of the simulation after which nine of ten migrations have begun that follow a change of "
    "four nodes' streams, the mean over seeds, of both changes the larger (homing)",
    "flow_aware_traffic_return": "bits sent per second after streams have become as slow again as they were, over "
    "those before (homing; the thesis's own rules are in the details)",
    "opbased_over_qf_3ops": "PR_max of balancing single operators over that of balancing fragments, at three operators "
    "per fragment, one shared medium, the median of the last ten seconds",
}


@dataclass(frozen=True, slots=True)
class Found:
    bounds: list[Bound]
    operators: Operators
    strategies: Strategies
    changes: Changes
    other_work: OtherWork

    def ratios(self) -> dict[str, float | None]:
        return {
            "settle_seconds": self.changes.settles(nodes=4),
            "flow_aware_traffic_return": self.strategies.of("homing").returns,
            "opbased_over_qf_3ops": self.operators.ratio(3.0, shared=True),
        }

    def details(self) -> dict[str, Any]:
        said = [claim._asdict() for claim in shown.claims(self)]
        return {"definitions": DEFINITIONS, "statements": said, **asdict(self)}


_PARTS: dict[str, Callable[[Effort], Any]] = {
    # What takes longest begins first.
    "fragments and operators": operators.measure,
    "other work": other_work.measure,
    "partners": partner_bounds.measure,
    "strategies": strategies.measure,
    "changes": changes.measure,
}


def measure(effort: Effort) -> Found:
    """All parts. They have nothing to do with each other, so that each core can run one at a time."""
    found: dict[str, Any] = {}
    with ProcessPoolExecutor(report.cores(), get_context("spawn")) as pool:
        running = {pool.submit(part, effort): name for name, part in _PARTS.items()}
        for each in as_completed(running):
            found[running[each]] = each.result()
            report.progress(f"placement: {len(found)} of {len(_PARTS)}: {running[each]}")
    return Found(
        found["partners"],
        found["fragments and operators"],
        found["strategies"],
        changes.with_four(found["changes"], found["strategies"]),
        found["other work"],
    )


show = shown.show
draw = shown.draw

"""The weighted size of the network, QNS, in five configurations: what sharing alone does, without rows or machines.

A selection above k joins weighs 5 − k; a join that is the k-th above the streams weighs 16, 8, 4, 2. Sizes published
for the source's own queries stand beside ours: their parameters are the same, the SQL of most of them is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from time import process_time

from matplotlib.figure import Figure

from bench.charts import PALETTE, canvas
from bench.network_measurements.fed_statistics import statistics_of
from bench.network_measurements.found import Found, Printed
from bench.network_workloads.files import FED
from bench.network_workloads.sets import SETS, bound
from lab.join_sharing import CONFIGURATIONS, weighted_size
from weft.algebra import Select
from weft.plan.canonical import normalised
from weft.plan.log_ids import LogId, LogKind

#: Published for 768 of the source's queries; it does not give a size for MPlan_NCanon.
PUBLISHED = {"AllSharing": 2138, "MatchPlan": 3057, "NonCanon": 5081, "NonJoinS": 21836}

KEYS = {
    "AllSharing": "qns_768_all",
    "MatchPlan": "qns_768_matchplan",
    "NonCanon": "qns_768_noncanon",
    "NonJoinS": "qns_768_nonjoin",
}
_MANUAL = "QIMQOSJPFed-Manual"
_STEP = 48


def found(runs: Mapping[str, tuple[list[tuple[int, int]], float]]) -> Found:
    """What `sizes` gave for each configuration, as a table and a chart."""
    curves = {name: curve for name, (curve, _) in runs.items()}
    seconds = {name: spent for name, (_, spent) in runs.items()}
    queries = curves["AllSharing"][-1][0]
    last = {name: curve[-1][1] for name, curve in curves.items()}
    listed = [
        [name, size, size / last["AllSharing"], PUBLISHED.get(name), _published_ratio(name), seconds[name]]
        for name, size in last.items()
    ]
    table = Printed(
        f"Weighted size of the network, {queries} queries ({_MANUAL})",
        ["configuration", "QNS", "times AllSharing", "published", "times AllSharing", "CPU s to register"],
        listed,
    )
    return Found(
        {key: float(last[name]) for name, key in KEYS.items()},
        [table],
        {"network_size": _chart(curves)},
        details={"curves": curves, "cpu_seconds": seconds},
    )


def _published_ratio(name: str) -> float | None:
    return PUBLISHED[name] / PUBLISHED["AllSharing"] if name in PUBLISHED else None


def sizes(configuration: str, rows: int) -> tuple[list[tuple[int, int]], float]:
    """The size of the network as queries come, one after the other; and the CPU seconds that all of them took."""
    planner = CONFIGURATIONS[configuration](statistics_of(FED, rows))
    selects = _selects()
    began = process_time()
    curve = []
    for number, select in enumerate(selects, 1):
        planner.register(f"q{number}", select, [LogId(LogKind.STREAM, "fed")] * len(select.inputs))
        if number % _STEP == 0:
            # As it is planned: how its conditions are computed has no part in its size.
            curve.append((number, weighted_size(planner.nodes.network())))
    return curve, process_time() - began


@cache
def _selects() -> list[Select]:
    selects = [normalised(query.relation) for query in bound(FED, SETS[_MANUAL].queries())]
    return [select for select in selects if isinstance(select, Select)]


def _chart(curves: dict[str, list[tuple[int, int]]]) -> Figure:
    figure, (panel,) = canvas(1, width=7.0)
    for (name, curve), colour in zip(curves.items(), PALETTE, strict=False):
        panel.plot(*zip(*curve, strict=True), "o-", markersize=3, color=colour, label=name)
        if name in PUBLISHED:
            panel.plot([768], [PUBLISHED[name]], "x", color=colour)
    panel.set(title="Weighted size of the network (× published)", xlabel="queries", ylabel="QNS", yscale="log")
    panel.legend(frameon=False, fontsize=8)
    return figure

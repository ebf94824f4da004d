"""Providers: query distribution and dissemination, figure by figure (COSMOS, chapters 3 and 4).

    python -m lab.figures.providers [--quick]

The families of figures are in `lab/figures/providers/` (which provider runs which query) and in
`lab/figures/dissemination/` (how data reach providers). A quick run takes a quarter of the network and a few
thousand queries: ratios that are defined for 30,000 or 60,000 queries are null then.
"""

from __future__ import annotations

import os

# One thread for matrix products: processor seconds are what is compared, and threads that wait for one another spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataclasses import asdict

from bench import report
from lab.figures import dissemination
from lab.figures.providers import arrivals, initial, pictures, rates, repair, throughput


def main() -> None:
    quick = report.quick_from_arguments("Providers: query distribution and dissemination, figure by figure.")
    watch = report.Stopwatch()
    routing = watch.run("routing", throughput.measure, throughput.show, quick)
    started = watch.run("initial distribution", initial.measure, initial.show, quick)
    repaired = watch.run("a bad start", repair.measure, repair.show, quick)
    changed = watch.run("changing rates", rates.measure, rates.show, quick)
    grown = watch.run("new queries", arrivals.measure, arrivals.show, quick)
    carried = watch.run("dissemination", dissemination.measure, dissemination.show, quick)
    pictures.draw_throughput(routing, quick)
    pictures.draw_initial(started, quick)
    pictures.draw_repair(repaired, quick)
    pictures.draw_rates(changed, quick)
    pictures.draw_arrivals(grown, quick)

    central, hierarchical = (initial.of(started, name, 60_000) for name in ("Centralised", "Hierarchical"))
    at_30k = initial.of(started, "Hierarchical", 30_000)
    adaptive = rates.moves_of(changed, "Adaptive")
    ratios: dict[str, float | None] = {
        "hier_over_central_cost": hierarchical.true_cost / central.true_cost if hierarchical and central else None,
        "hier_over_central_edge_cut": hierarchical.edge_cut / central.edge_cut if hierarchical and central else None,
        "hier_over_central_seconds": hierarchical.cpu_seconds / central.cpu_seconds
        if hierarchical and central
        else None,
        "hier_over_central_response": started.response[60_000] / central.cpu_seconds if central else None,
        "root_routes_per_second": next(each.per_second for each in routing if each.k == 4),
        "remap_over_adaptive_migrations": rates.moves_of(changed, "Re-mapping") / adaptive if adaptive else None,
        "true_cost_over_naive_30k": at_30k.true_cost if at_30k else None,
        **dissemination.ratios(carried),
    }
    details = {
        "initial": {"placements": [asdict(each) for each in started.placements], "response": started.response},
        "repair": [asdict(each) for each in repaired],
        "arrivals": [asdict(each) for each in grown],
        "throughput": [asdict(each) for each in routing],
        "rates": [asdict(each) for each in changed],
        "dissemination": dissemination.details(carried),
        "time": watch.spent,
    }
    report.finish("providers", ratios, details, quick)


if __name__ == "__main__":
    main()

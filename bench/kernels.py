"""Window kernels: against each other, against bare loops, and push by push. `python -m bench.kernels [--quick]`"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, fsum, log
from time import perf_counter

from bench.kernel_measurements import latency, limits, multi_query, papers, pictures, single_query
from bench.kernel_measurements.latency import Latencies
from bench.kernel_measurements.limits import Limits
from bench.kernel_measurements.multi_query import MultiQuery
from bench.kernel_measurements.single_query import SingleQuery
from bench.kernel_measurements.subjects import COUNTS, MAX, SUM_OF_BIGINTS, power, title
from bench.report import cpu_seconds, finish, progress, quick_from_arguments, save_chart, table

#: Fewer ranges than this are not what sharing is for; they are shown, and do not count in the ratio.
MANY_RANGES = 1 << 8

DEFINITIONS = {
    "slickdeque_over_best_single_max": "MAX(DOUBLE): throughput of SlickDeque (Non-Inv) over the best other kernel, at "
    "the window where it is least",
    "slickdeque_over_best_single_sum": "COUNT(*) and SUM(BIGINT): throughput of SlickDeque (Inv) over the best "
    "other kernel, at the window where it is least",
    "slickdeque_over_next_multi": f"MAX(DOUBLE), all ranges 1 … n: throughput of SlickDeque (Non-Inv) over the best "
    f"other kernel, at the n ≥ {MANY_RANGES} where it is least",
    "numpy_limit_share_sum": "1,000 keys × 1,000 partials, SUM(DOUBLE) and SUM(BIGINT): time of a Numba loop that does "
    "the arithmetic alone over that of the chosen kernel, the lesser of both",
    "numpy_limit_share_max": "the same for MAX(DOUBLE)",
    "cpp_limit_share": "one key, 1,000 partials: time of a C++ -O2 ring-buffer loop that keeps the same promise over "
    "that of the chosen kernel, the least of COUNT, SUM(BIGINT), SUM(DOUBLE) and MAX(DOUBLE)",
    "daba_worst_over_typical": "MAX(DOUBLE), window 2¹⁴, random input: DABA's longest push over its typical one, "
    "without the clock's own time (less is better)",
    "slickdeque_worst_over_typical": "the same for SlickDeque, the greater of MAX(DOUBLE), COUNT and SUM(BIGINT)",
}


@dataclass(frozen=True)
class Effort:
    """How much of everything is measured."""

    windows: Sequence[int]
    ranges: Sequence[int]
    rounds: int
    short_rounds: int
    """Where a round takes milliseconds."""

    pushes_repeated: int


FULL = Effort(
    [1 << n for n in range(4, 21, 2)], [1 << n for n in range(4, 13)], rounds=7, short_rounds=40, pushes_repeated=100
)
QUICK = Effort(
    [1 << n for n in (4, 8, 12, 16)], [1 << n for n in (4, 8, 10)], rounds=3, short_rounds=6, pushes_repeated=80
)


def main() -> None:
    quick = quick_from_arguments("Measures window kernels against each other, bare loops and the clock.")
    effort = QUICK if quick else FULL
    began, cpu_before = perf_counter(), cpu_seconds()
    single = single_query.measure(effort.windows, effort.rounds, effort.short_rounds)
    multi = multi_query.measure(effort.ranges, effort.short_rounds)
    against_loops = limits.measure(effort.short_rounds)
    latencies = latency.measure(effort.pushes_repeated)
    _print_throughput(single, multi)
    _print_limits(against_loops)
    _print_latencies(latencies)
    against_papers = _print_papers(single, multi, latencies)
    for name, figure in (
        ("kernels_single", pictures.single_query(single)),
        ("kernels_multi", pictures.multi_query(multi)),
        ("kernels_limits", pictures.limits(against_loops)),
        ("kernels_latency", pictures.latency(latencies)),
    ):
        save_chart(figure, name, quick)
    spent = {"wall_seconds": perf_counter() - began, "cpu_seconds": cpu_seconds() - cpu_before}
    progress(f"took {spent['wall_seconds']:.0f} s, {spent['cpu_seconds']:.0f} s of CPU")
    details = {
        "definitions": DEFINITIONS,
        "single_query_ns_per_slide": single.nanoseconds,
        "single_query_bytes_held": single.bytes_held,
        "multi_query_ns_per_slide": multi.nanoseconds,
        "limits": asdict(against_loops),
        "latency": asdict(latencies),
        "papers": against_papers,
        "spent": spent,
    }
    finish("kernels", ratios(single, multi, against_loops, latencies), details, quick)


def ratios(
    single: SingleQuery, multi: MultiQuery, against_loops: Limits, latencies: Latencies
) -> dict[str, float | None]:
    """The figures that stand for all others; DEFINITIONS says what each is."""
    sums = (COUNTS, SUM_OF_BIGINTS)
    cpp = against_loops.single
    shared = multi.slickdeque_over_next(MAX)
    slickdeques = [
        one for label, one in latencies.kernels.items() if label.startswith("SlickDeque") and "falling" not in label
    ]
    return {
        "slickdeque_over_best_single_max": min(single.slickdeque_over_best(MAX).values()),
        "slickdeque_over_best_single_sum": min(min(single.slickdeque_over_best(one).values()) for one in sums),
        "slickdeque_over_next_multi": min(ratio for ranges, ratio in shared.items() if ranges >= MANY_RANGES),
        "numpy_limit_share_sum": min(one.share for one in against_loops.keyed if one.function != MAX.name),
        "numpy_limit_share_max": min(one.share for one in against_loops.keyed if one.function == MAX.name),
        "cpp_limit_share": None if cpp is None else min(one.share for one in cpp if one.counts),
        "daba_worst_over_typical": latencies.kernels[f"DABA, {MAX.name}"].worst_over_typical,
        "slickdeque_worst_over_typical": max(one.worst_over_typical for one in slickdeques),
    }


# --- for people ------------------------------------------------------------------------------------------------------


def _print_throughput(single: SingleQuery, multi: MultiQuery) -> None:
    for function in single_query.FUNCTIONS:
        _print_costs(
            f"One query, {function.name}: CPU nanoseconds per slide, by partials in the window",
            single.nanoseconds[function.name],
            single.slickdeque_over_best(function),
        )
    for function in multi_query.FUNCTIONS:
        per_answer = {
            ranges: {kernel: cost / ranges for kernel, cost in costs.items()}
            for ranges, costs in multi.nanoseconds[function.name].items()
        }
        _print_costs(
            f"All ranges 1 … n, {function.name}: CPU nanoseconds per answer, by n",
            per_answer,
            multi.slickdeque_over_next(function),
        )


def _print_costs(heading: str, costs: Mapping[int, Mapping[str, float]], leads: Mapping[int, float]) -> None:
    """Kernels from the fastest to the slowest, by their geometric mean over all windows."""
    kernels = sorted(next(iter(costs.values())), key=lambda kernel: _mean(costs[n][kernel] for n in costs))
    rows: list[list[object]] = [[title(kernel), *(costs[n][kernel] for n in costs)] for kernel in kernels]
    rows.append(["SlickDeque over the best other", *(f"{leads[n]:.2f} ×" for n in costs)])
    table(heading, ["kernel", *map(power, costs)], rows)


def _mean(values: Iterable[float]) -> float:
    logarithms = [log(value) for value in values]
    return exp(fsum(logarithms) / len(logarithms))


def _print_limits(against_loops: Limits) -> None:
    table(
        f"Against loops that do the arithmetic alone: nanoseconds per key and slide, {limits.WINDOW:,} partials",
        ["function", "keys", "weft's kernel", "ns", "limit", "ns", "share"],
        [
            [one.function, keys, title(one.kernel), one.kernel_nanoseconds, one.limit, one.limit_nanoseconds, one.share]
            for keys, shares in ((limits.KEYS, against_loops.keyed), (1, against_loops.single or []))
            for one in shares
        ],
        "" if against_loops.single else "no C++ compiler was found: the C++ loops are left out",
    )


def _print_latencies(latencies: Latencies) -> None:
    table(
        f"Single pushes with their answers, window {power(latency.WINDOW)}: nanoseconds",
        ["kernel and function", "least", "typical", "worst", "worst over typical"],
        [
            [one.label, one.least, one.typical, one.worst, one.worst_over_typical]
            for one in sorted(latencies.kernels.values(), key=lambda one: one.worst)
        ],
        f"a reading of the clock takes {latencies.clock:.1f} ns, which are taken off",
    )


def _print_papers(single: SingleQuery, multi: MultiQuery, latencies: Latencies) -> dict[str, object]:
    claims = papers.claims(single, multi, latencies)
    table(
        "What Shein and Chrysanthis report of figures 11 to 14, and what was measured here",
        ["figure", "paper", "here", "remark"],
        [[one.figure, one.paper, one.here, one.remark] for one in claims],
    )
    found = [
        difference
        for measured, order in ((single, papers.ORDER_SINGLE), (multi, papers.ORDER_MULTI))
        for difference in papers.differences(measured.nanoseconds, order)
    ]
    print("Kernels that stand the other way round than their operations in Table 2, with the likely reason:")
    for difference in found:
        print(f"  {difference}")
    print()
    return {"claims": [asdict(one) for one in claims], "differences": [str(one) for one in found]}


if __name__ == "__main__":
    main()

"""The thesis's workload: three streams with one attribute, whose ranges of values make the selectivities.

If n₁ tuples are spread evenly over r₁ values and n₂ over r₂, and o values are in both ranges, then a join on equal
values has (n₁ / r₁) · (n₂ / r₂) · o results. The selectivity of a join with respect to S is that number over |S|.
"""

from __future__ import annotations

from random import Random

from lab.ordering.channels import REPORT_BYTES
from lab.ordering.setting import Feed

#: S tuples for each tuple of R, and of T: 100,000, 10,000 and 10,000 in the thesis.
S_OVER_OTHERS = 10

#: Values of S's attribute for each S tuple: 5,000 for 100,000.
_VALUES_PER_TUPLE = 0.05


def cardinality(tuples: int, values: int, other_tuples: int, other_values: int) -> float:
    """Expected results of a join on equal values; both ranges begin at 0."""
    return tuples / values * (other_tuples / other_values) * min(values, other_values)


def report_bytes(selectivity: float, tuples: int, threshold: int) -> float:
    """What reports about so many tuples take: a number for each `threshold` results."""
    return selectivity * tuples * REPORT_BYTES / threshold


def three_streams(
    random: Random, tuples: int, r_selectivity: float, t_selectivity: float, swapped: bool = False, stored: bool = False
) -> dict[str, Feed]:
    """R, S and T with so many S tuples, and these selectivities of R ⋈ S and S ⋈ T with respect to S.

    `swapped`: the second half of S has values of another range, where R is as dense as T was, and T as R was.
    `stored`: R and T are there from the beginning (index joins).
    """
    few = max(1, tuples // S_OVER_OTHERS)
    if swapped:
        width = max(1, round(few / (r_selectivity + t_selectivity)))
        first, second = tuples // 2, tuples - tuples // 2
        s = [random.randrange(width) for _ in range(first)] + [width + random.randrange(width) for _ in range(second)]
        r = _two_ranges(random, few, width, r_selectivity / (r_selectivity + t_selectivity))
        t = _two_ranges(random, few, width, t_selectivity / (r_selectivity + t_selectivity))
    else:
        width = max(1, round(tuples * _VALUES_PER_TUPLE))
        s = [random.randrange(width) for _ in range(tuples)]
        r, t = (_spread(random, few, width, wanted) for wanted in (r_selectivity, t_selectivity))
    return {
        "R": Feed({"a": r}, stored=stored),
        "S": Feed({"a": s}),
        "T": Feed({"a": t}, stored=stored),
    }


def _spread(random: Random, tuples: int, width: int, per_value: float) -> list[int]:
    """Values of which so many fall on each of the first `width`; S never has any of the rest."""
    if per_value == 0:
        return [width + number for number in range(tuples)]
    values = round(tuples / per_value)
    if values < width:
        raise ValueError(f"{tuples} tuples are too few for {per_value} on each of {width} values")
    return [random.randrange(values) for _ in range(tuples)]


def _two_ranges(random: Random, tuples: int, width: int, share: float) -> list[int]:
    """So much of them in the first `width` values, the rest in the next; mixed."""
    first = round(tuples * share)
    values = [random.randrange(width) for _ in range(first)]
    values += [width + random.randrange(width) for _ in range(tuples - first)]
    random.shuffle(values)
    return values

"""QAggreFed: 350 aggregates over transfers, of three categories and twenty-one forms.

select and join, then aggregate    240    chains of two to five records × direction × sums by account or by bank
aggregate, then join                80    sums of each day by receiver and by sender × account or bank, as in B.5
aggregate, then a set operator      30    banks that received much on a day and did not send much
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from bench.network_workloads.fed_chains import DIRECTIONS, KINDS, RECORDS, Chain, chain_source
from bench.network_workloads.query import WorkloadQuery

_AMOUNTS = (50_000, 75_000, 100_000)
_DAYS = (30, 20, 15, 10, 5)
_RATIO = 2
_ALERTS = (10_000, 50_000, 100_000, 500_000, 1_000_000)
_DAY_ALERTS = (200_000, 300_000, 500_000, 1_000_000)
_DIFFERENCE_ALERTS = (200_000, 250_000, 300_000, 400_000, 500_000)


def fed_aggregates() -> list[WorkloadQuery]:
    texts = [*_after_joins(), *_before_joins(), *_between_sets()]
    return [WorkloadQuery(f"a{number:03d}", text) for number, text in enumerate(texts)]


def _after_joins() -> Iterator[str]:
    """What the records beside pivots move, summed up for each sender of a pivot."""
    for records, direction, kind in product(RECORDS, DIRECTIONS, KINDS):
        for place, (amount, days) in enumerate(product(_AMOUNTS, _DAYS)):
            chain = Chain(records, direction, kind, amount, days, _RATIO)
            pivot, beside = f"r{chain.pivot}", f"r{chain.beside}"
            keys = f"{pivot}.sbank_aba" if kind == "bank" else f"{pivot}.sbank_aba, {pivot}.orig_account"
            yield (
                f"SELECT {keys}, SUM({beside}.amount) AS moved, COUNT(*) AS chains FROM {chain_source(chain)} "
                f"GROUP BY {keys} HAVING SUM({beside}.amount) > {_ALERTS[place % len(_ALERTS)]}"
            )


def _before_joins() -> Iterator[str]:
    """Parties whose sum of a day is large on one side, and on the other as well; the view that leads names them."""
    for side, party in product(("received", "sent"), KINDS):
        for place, above in enumerate(_DAY_ALERTS * 5):
            other = above // 2 + 10_000 * (place // len(_DAY_ALERTS))
            received = _day_sums("rbank_aba", "benef_account", party, above if side == "received" else other)
            sent = _day_sums("sbank_aba", "orig_account", party, above if side == "sent" else other)
            lead = "r" if side == "received" else "s"
            meet = "r.bank = s.bank" if party == "bank" else "r.bank = s.bank AND r.account = s.account"
            names = f"{lead}.bank" if party == "bank" else f"{lead}.bank, {lead}.account"
            yield (
                f"WITH received AS ({received}), sent AS ({sent}) "
                f"SELECT {names}, r.window_start AS tran_date, r.total AS rsum, s.total AS ssum "
                f"FROM received [NOW] r, sent [NOW] s WHERE {meet}"
            )


def _between_sets() -> Iterator[str]:
    for received, share, operator in product(_DIFFERENCE_ALERTS, (1, 2, 4), ("EXCEPT", "INTERSECT")):
        yield (f"{_banks_of_a_day('rbank_aba', received)} {operator} {_banks_of_a_day('sbank_aba', received // share)}")


def _day_sums(bank: str, account: str, party: str, above: int) -> str:
    listed = f"{bank} AS bank" if party == "bank" else f"{bank} AS bank, {account} AS account"
    grouped = bank if party == "bank" else f"{bank}, {account}"
    return (
        f"SELECT {listed}, SUM(amount) AS total FROM fed [RANGE 1 DAY SLIDE 1 DAY] "
        f"GROUP BY {grouped} HAVING SUM(amount) > {above}"
    )


def _banks_of_a_day(bank: str, above: int) -> str:
    return f"SELECT {bank} AS bank FROM fed [RANGE 1 DAY SLIDE 1 DAY] GROUP BY {bank} HAVING SUM(amount) > {above}"

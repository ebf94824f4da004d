"""The source's examples B.1 to B.7 over transfers, constants and all, and its four aggregates B.8 to B.11.
And aggregates that have nothing in common, to see what it gains to keep them up to date, apart from sharing.

`weft` gets what `select` says. Where one of them had to change to be a query over a stream, the package says how.
"""

from __future__ import annotations

from itertools import combinations

from bench.network_workloads.query import WorkloadQuery

_LINK = "{0}.rbank_aba = {1}.sbank_aba AND {0}.benef_account = {1}.orig_account"
_WITHIN = "{0}.tran_date <= {1}.tran_date AND {1}.tran_date <= {0}.tran_date + INTERVAL {2} DAYS"

_Q1 = (
    "SELECT r1.sbank_aba AS sbank, r1.orig_account AS saccount, r1.rbank_aba AS rbank, r1.benef_account AS raccount, "
    "r1.amount AS ramount, r1.tran_date AS rdate, r2.rbank_aba AS ibank, r2.benef_account AS iaccount, "
    "r2.amount AS iamount, r2.tran_date AS idate, r3.rbank_aba AS frbank, r3.benef_account AS fraccount, "
    "r3.amount AS framount, r3.tran_date AS frdate FROM fed r1, fed r2, fed r3 "
    "WHERE r2.type_code = 1000 AND r3.type_code = 1000 AND r1.type_code = 1000 AND r1.amount > 1000000 "
    f"AND {_LINK.format('r1', 'r2')} AND r2.amount > 0.5 * r1.amount AND {_WITHIN.format('r1', 'r2', 20)} "
    f"AND {_LINK.format('r2', 'r3')} AND r2.amount = r3.amount AND {_WITHIN.format('r2', 'r3', 20)}"
)
_Q2 = (
    "SELECT r1.tranid AS rtranid, r2.tranid AS stranid, r1.rbank_name, r1.tran_date AS rtran_date, "
    "r1.amount AS ramount, r2.amount AS samount FROM fed [RANGE 1 DAY] r1, fed [RANGE 1 DAY] r2 "
    "WHERE r1.rbank_aba = r2.sbank_aba AND CAST(r1.tran_date AS DATE) = CAST(r2.tran_date AS DATE) "
    "AND r1.amount > 1000000 AND r2.amount > 500000"
)
_Q3 = (
    "SELECT r1.tranid AS rtranid, r2.tranid AS stranid, r1.rbank_name, r1.benef_account, r1.tran_date AS rtran_date, "
    "r2.tran_date AS stran_date, r1.amount AS ramount, r2.amount AS samount FROM fed r1, fed r2 "
    f"WHERE {_LINK.format('r1', 'r2')} AND r1.tran_date <= r2.tran_date "
    "AND r1.tran_date + INTERVAL 10 DAYS >= r2.tran_date AND r1.amount > 1000000 AND r2.amount = r1.amount"
)
_Q4 = (
    "SELECT r.tranid, r.rbank_aba, r.benef_account, AVG(r.amount) AS ramount, SUM(s.amount) AS samount "
    f"FROM fed r, fed s WHERE {_LINK.format('r', 's')} AND {_WITHIN.format('r', 's', 10)} AND r.amount > 1000000 "
    "GROUP BY r.tranid, r.rbank_aba, r.benef_account HAVING SUM(s.amount) > AVG(r.amount) * 0.5"
)


def _day_sums(bank: str, total: str, above: int) -> str:
    return (
        f"SELECT {bank}, SUM(amount) AS {total} FROM fed [RANGE 1 DAY SLIDE 1 DAY] "
        f"GROUP BY {bank} HAVING SUM(amount) > {above}"
    )


_Q5 = (
    f"WITH rbank_money AS ({_day_sums('rbank_aba', 'rsum', 100_000_000)}), "
    f"sbank_money AS ({_day_sums('sbank_aba', 'ssum', 50_000_000)}) "
    "SELECT r.rbank_aba, s.sbank_aba, r.window_start AS tran_date, r.rsum, s.ssum "
    "FROM rbank_money [NOW] r, sbank_money [NOW] s WHERE r.rbank_aba = s.sbank_aba"
)
_Q6 = (
    "SELECT tranid, sbank_name, tran_date, amount FROM fed "
    "WHERE (sbank_name = 'Citibank (New York State)' OR sbank_name = 'Fleet Bank') "
    "AND tran_date >= '2002-11-20' AND tran_date <= '2002-11-30'"
)
_Q7 = (
    "SELECT tranid, sbank_name, tran_date, amount FROM fed WHERE sbank_name = 'Citibank (New York State)' "
    "AND CAST(tran_date AS DATE) = DATE '2002-11-27' AND amount > 10000000"
)


def fed_examples() -> list[WorkloadQuery]:
    """QIEFed-Manual: the seven."""
    return [WorkloadQuery(f"q{number}", text) for number, text in enumerate((_Q1, _Q2, _Q3, _Q4, _Q5, _Q6, _Q7), 1)]


def plain_examples() -> list[WorkloadQuery]:
    """Those that answer once and for all: neither a group that changes nor a day that has yet to end."""
    return [query for query in fed_examples() if query.name not in ("q4", "q5")]


def fed_group_pairs() -> list[WorkloadQuery]:
    """Two pairs of aggregates; the second of each groups by one expression less, and can be made from the first."""
    finer = {"qa1": ("rbank_aba", "benef_account", True), "qa2": ("rbank_aba", "benef_account", False)}
    coarser = {"qa3": ("sbank_aba", "orig_account", True), "qa4": ("sbank_aba", "orig_account", False)}
    return [WorkloadQuery(name, _group_sums(*parts)) for name, parts in {**finer, **coarser}.items()]


#: What transfers are grouped by: two of these at a time, so that no grouping can be made from another one.
_PARTS = {
    "rbank": "rbank_aba",
    "sbank": "sbank_aba",
    "benef": "SUBSTRING(benef_account, 1, 1)",
    "orig": "SUBSTRING(orig_account, 1, 1)",
    "type": "type_code",
    "day": "CAST(tran_date AS DATE)",
}


def fed_groupings() -> list[WorkloadQuery]:
    """Fifteen aggregates that have nothing in common but the rows they read."""
    return [
        WorkloadQuery(
            f"by_{one}_and_{other}",
            f"SELECT {_PARTS[one]} AS {one}, {_PARTS[other]} AS {other}, SUM(amount) AS total, COUNT(*) AS transfers "
            f"FROM fed GROUP BY {_PARTS[one]}, {_PARTS[other]} HAVING SUM(amount) > 10000000",
        )
        for one, other in combinations(_PARTS, 2)
    ]


def _group_sums(bank: str, account: str, by_initial: bool) -> str:
    initial = f"SUBSTRING({account}, 1, 1)"
    listed = f"{bank}, {initial} AS initial" if by_initial else bank
    grouped = f"{bank}, {initial}" if by_initial else bank
    return (
        f"SELECT {listed}, CAST(tran_date AS DATE) AS day, SUM(amount) AS total, COUNT(*) AS transfers FROM fed "
        f"GROUP BY {grouped}, CAST(tran_date AS DATE) HAVING SUM(amount) > 10000000"
    )

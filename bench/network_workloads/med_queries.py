"""QAggreMed and QIMQOSJPMed: patients and diseases that come again.

For each of the 138 infections (diagnoses from one three-digit code up to the next) there are three aggregates: cases
later than 40 days after an earlier one (QM1), within 40 days but not near one (QM2), and within 40 days near one (QM3).
That makes 414; the first 36 once more make QAggreMed. With 151 joins of the forms QM4 to QM8 they make QIMQOSJPMed.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.network_workloads.med_rows import INFECTIONS
from bench.network_workloads.query import WorkloadQuery

_REPEATED = 36
_NEAR = 50

_ID = (
    "(t1.bdate = t2.bdate OR ((t1.bdate IS NULL OR t2.bdate IS NULL) AND t1.bym = t2.bym) OR "
    "((t1.bdate IS NULL OR t2.bdate IS NULL) AND (t1.bym IS NULL OR t2.bym IS NULL) AND t1.byear = t2.byear)) "
    "AND t1.sex = t2.sex AND (t1.race = t2.race OR t1.race IS NULL OR t2.race IS NULL) AND t1.zip = t2.zip "
    "AND t1.townid = t2.townid AND (t1.patorg = t2.patorg OR (t1.patorg = '9' AND t2.patorg = '1') "
    "OR t1.patorg = '7' OR t2.patorg = '7')"
)
_PATIENT = "t1.bdate, t1.bym, t1.byear, t1.sex, t1.race, t1.zip, t1.townid, t1.payor, t1.age"
_VISIT = "t1.recid, t1.hospid, t1.adate, t1.ddate, t1.los, t1.disp, t1.dxs_01, t2.recid AS recid2"


def med_aggregates() -> list[WorkloadQuery]:
    """QAggreMed: 414 and the first 36 of them again, under names of their own."""
    texts = list(_of_infections())
    return _named("m", [*texts, *texts[:_REPEATED]])


def med_joins() -> list[WorkloadQuery]:
    """QIMQOSJPMed: the 414, and 151 joins of other forms."""
    return _named("m", [*_of_infections(), *_of_patients()])


def _named(letter: str, texts: list[str]) -> list[WorkloadQuery]:
    return [WorkloadQuery(f"{letter}{number:03d}", text) for number, text in enumerate(texts)]


# --- infections ------------------------------------------------------------------------------------------------------


def _of_infections() -> Iterator[str]:
    for infection in INFECTIONS:
        low, high = f"{infection:03d}", f"{infection + 1:03d}"
        yield f"{_cases('[RANGE UNBOUNDED] ', low, high)} EXCEPT {_cases('', low, high, _SOON)} RETAIN UNBOUNDED"
        yield f"{_cases('', low, high, _SOON)} HAVING {_DISTANCE} >= {_NEAR}"
        yield f"{_cases('', low, high, _SOON)} HAVING {_DISTANCE} < {_NEAR}"


_SOON = " AND t2.adate < t1.adate + INTERVAL 40 DAYS"
_DISTANCE = "MIN(ABS(CAST(t2.zip AS INT) - CAST(t1.zip AS INT)))"


def _cases(window: str, low: str, high: str, more: str = "") -> str:
    """Cases of a disease after an earlier one."""
    return (
        f"SELECT t1.dxs_01, t2.zip, t2.adate, t2.recid FROM med {window}t1, med {window}t2 "
        f"WHERE t2.adate > t1.adate AND t1.dxs_01 = t2.dxs_01 AND t1.dxs_01 >= '{low}' AND t1.dxs_01 < '{high}'{more} "
        "GROUP BY t1.dxs_01, t2.zip, t2.adate, t2.recid"
    )


# --- patients --------------------------------------------------------------------------------------------------------


def _of_patients() -> Iterator[str]:
    for place in range(31):
        yield _twice_the_same_disease(4_600 + 20 * place, 40 + 5 * (place % 4), 10 + place % 3)
    for place in range(30):
        yield _twice_the_same_procedure(361 + place % 10, 365 - 30 * (place // 10))
    for place in range(30):
        yield _then_a_complication(550 + place % 15, 40 + 20 * (place // 15))
    for place in range(30):
        yield _then_a_worse_disease(155 + place % 6, 570 - 10 * (place // 6))
    for place in range(30):
        yield _transfer(f"{place // 10 + 1:02d}", f"{100 * (place % 10)}".zfill(3))


def _twice_the_same_disease(first: int, days: int, age: int) -> str:
    """QM4: children."""
    return _joined(
        f"t1.age < {age} AND t2.age < {age + 1} AND t1.adate <= t2.adate "
        f"AND t2.adate <= t1.adate + INTERVAL {days} DAYS AND t1.recid != t2.recid AND t1.dxs_01 = t2.dxs_01 "
        f"AND t1.dxs_01 >= '{first:04d}' AND t1.dxs_01 < '{first + 400:04d}'"
    )


def _twice_the_same_procedure(procedure: int, days: int) -> str:
    """QM5: bypasses and their like."""
    low, high = f"'{procedure:03d}'", f"'{procedure + 1:03d}'"
    both = " AND ".join(
        f"(({t}.ops_01 >= {low} AND {t}.ops_01 < {high}) OR ({t}.ops_02 >= {low} AND {t}.ops_02 < {high}))"
        for t in ("t1", "t2")
    )
    return _joined(
        f"t1.adate <= t2.adate AND t2.adate < t1.adate + INTERVAL {days} DAYS AND t1.recid != t2.recid AND {both}"
    )


def _then_a_complication(procedure: int, days: int) -> str:
    """QM6: transplants."""
    complication = " OR ".join(f"t2.dxs_0{place} = '99681'" for place in range(1, 5))
    return _joined(
        f"t1.ops_01 >= '{procedure:03d}' AND t1.ops_01 < '{procedure + 1:03d}' AND ({complication}) "
        f"AND t1.adate <= t2.adate AND t2.adate < t1.adate + INTERVAL {days} DAYS AND t1.recid != t2.recid"
    )


def _then_a_worse_disease(cancer: int, first: int) -> str:
    """QM7: the liver's, without a limit of time."""
    return _joined(
        "t1.adate < t2.adate AND ((t1.dxs_01 >= '070' AND t1.dxs_01 < '071') "
        f"OR (t1.dxs_01 >= '{first}' AND t1.dxs_01 < '574')) AND t1.disp != '20' "
        f"AND t2.dxs_01 >= '{cancer}' AND t2.dxs_01 < '{cancer + 1}'",
        window="[RANGE UNBOUNDED] ",
    )


def _transfer(disposition: str, least_disease: str) -> str:
    """QM8: from one hospital to another on the day of discharge."""
    return _joined(
        "t1.adate <= t2.adate AND t1.ddate = t2.adate AND t1.recid != t2.recid "
        f"AND t1.disp = '{disposition}' AND t1.hospid != t2.hospid AND t1.dxs_01 = t2.dxs_01 "
        f"AND t1.dxs_01 >= '{least_disease}'",
        window="[RANGE UNBOUNDED] ",
    )


def _joined(condition: str, window: str = "") -> str:
    return f"SELECT {_PATIENT}, {_VISIT} FROM med {window}t1, med {window}t2 WHERE {_ID} AND {condition}"

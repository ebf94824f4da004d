"""Discharges from hospitals, shaped as the source's table is; its data are private.

A year of admissions in the order of time. Patients are people with a date of birth, a sex, a race, a ZIP code and a
town, and some come again. Diagnoses and procedures are codes of five and four digits: one diagnosis in twenty-five is
an infection (`001` to `138`), some of which are far more frequent than others. Dates of birth, races and the like are
missing now and then, which is why queries compare them as they do.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

HISTORY, INCREMENT = 600_000, 4_000
PATIENTS, HOSPITALS, ZIPS, TOWNS = 350_000, 60, 700, 350
ROWS_OF_A_DAY = 2_200
FIRST_DAY = np.datetime64("2000-10-01", "D")
SEED = 2001

#: The infections, as the first three digits of a diagnosis.
INFECTIONS = range(1, 139)
_INFECTED_SHARE = 0.04
_FREQUENT_CODES = (480, 486, 491, 493, 518, 570, 571, 573, 155, 414, 428, 996)

COLUMNS = {
    "recid": "BIGINT",
    "providerid": "STRING",
    "dischargeid": "STRING",
    "hospid": "STRING",
    "sex": "STRING",
    "age": "INT",
    "payor": "STRING",
    "bdate": "DATE",
    "adate": "TIMESTAMP",
    "ddate": "TIMESTAMP",
    "zip": "STRING",
    "los": "INT",
    "disp": "STRING",
    "race": "STRING",
    **{f"dxs_0{place}": "STRING" for place in range(1, 6)},
    **{f"ops_0{place}": "STRING" for place in range(1, 6)},
    "patorg": "STRING",
    "townid": "STRING",
    "byear": "DATE",
    "bym": "DATE",
}


def med_rows(rows: int, seed: int = SEED) -> pa.Table:
    """The first so many discharges. More rows begin with the same ones."""
    draw = _Columns(rows, seed)
    patient = draw.integers(PATIENTS)
    birth = _births(seed)[patient]
    admitted = FIRST_DAY + np.arange(rows) // ROWS_OF_A_DAY
    stay = np.minimum(draw.generator().geometric(0.2, rows) - 1, 200)
    columns = {
        "recid": pa.array(np.arange(rows) + 1, pa.int64()),
        "providerid": _padded(draw.integers(5_000), "P", 10),
        "dischargeid": _padded(np.arange(rows) + 1, "D", 10),
        "hospid": _padded(draw.integers(HOSPITALS), "", 4),
        "sex": _chosen(_of_patient(seed, 1, 2)[patient], ("F", "M")),
        "age": pa.array((admitted - birth).astype(int) // 365, pa.int32()),
        "payor": _chosen(draw.integers(9), "123456789"),
        "bdate": _sometimes(birth.astype("M8[D]"), draw.share(0.1)),
        "adate": _days(admitted),
        "ddate": _days(admitted + stay),
        "zip": _padded(1_000 + _of_patient(seed, 2, ZIPS)[patient], "0", 4),
        "los": pa.array(stay, pa.int32()),
        "disp": _chosen(np.where(draw.share(0.06), 1, np.where(draw.share(0.03), 2, 0)), ("01", "02", "20")),
        "race": _sometimes(np.array(list("12345"))[_of_patient(seed, 3, 5)[patient]], draw.share(0.05)),
        **{f"dxs_0{place}": _diagnoses(draw, 1.0 if place == 1 else 0.9 - 0.15 * place) for place in range(1, 6)},
        **{f"ops_0{place}": _procedures(draw, 0.6 - 0.1 * place) for place in range(1, 6)},
        "patorg": _chosen(np.where(draw.share(0.02), 2, np.where(draw.share(0.1), 1, 0)), "197"),
        "townid": _padded(_of_patient(seed, 4, TOWNS)[patient], "", 3),
        "byear": pa.array(birth.astype("M8[Y]").astype("M8[D]")),
        "bym": _sometimes(birth.astype("M8[M]").astype("M8[D]"), draw.share(0.03)),
    }
    return pa.table({name: columns[name] for name in COLUMNS})


class _Columns:
    """Draws for one column after another; each has a generator of its own, so that more rows begin with the same."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows, self._seed, self._drawn = rows, seed, 0

    def generator(self) -> np.random.Generator:
        self._drawn += 1
        return np.random.default_rng([self._seed, 100 + self._drawn])

    def integers(self, below: int) -> np.ndarray:
        return self.generator().integers(0, below, self._rows)

    def share(self, share: float) -> np.ndarray:
        """True for such a share of the rows."""
        return self.generator().random(self._rows) < share


def _of_patient(seed: int, trait: int, values: int) -> np.ndarray:
    return np.random.default_rng([seed, trait]).integers(0, values, PATIENTS)


def _births(seed: int) -> np.ndarray:
    days = np.random.default_rng([seed, 0]).integers(0, 95 * 365, PATIENTS)
    return np.datetime64("2000-10-01", "D") - days


def _diagnoses(draw: _Columns, share: float) -> pa.Array:
    """Three digits for the disease and two for its kind; the first infections are more frequent than the last."""
    infected, frequent = draw.share(_INFECTED_SHARE), draw.share(0.4)
    infection = INFECTIONS.start + (draw.generator().random(len(infected)) ** 2 * len(INFECTIONS)).astype(int)
    known = np.array(_FREQUENT_CODES)[draw.integers(len(_FREQUENT_CODES))]
    other = 139 + draw.integers(860)
    disease = np.where(infected, infection, np.where(frequent, known, other))
    kind = np.where(disease == 996, 81, draw.integers(5) * 10)
    return _sometimes(_digits(disease * 100 + kind, 5), ~draw.share(share))


def _procedures(draw: _Columns, share: float) -> pa.Array:
    """Four digits; bypasses (361x) and transplants of kidneys (556x) among them."""
    code = np.where(draw.share(0.01), 3610 + draw.integers(10), 100 + draw.integers(9_800))
    code = np.where(draw.share(0.002), 5560 + draw.integers(10), code)
    return _sometimes(_digits(code, 4), ~draw.share(share))


def _digits(numbers: np.ndarray, width: int) -> np.ndarray:
    return np.char.zfill(numbers.astype(str), width)


def _padded(numbers: np.ndarray, letter: str, width: int) -> pa.Array:
    return pa.array(np.char.add(letter, _digits(numbers, width)))


def _chosen(numbers: np.ndarray, values: str | tuple[str, ...]) -> pa.Array:
    return pa.array(np.array(list(values))[numbers])


def _sometimes(values: np.ndarray, missing: np.ndarray) -> pa.Array:
    return pa.array(values, mask=missing)


def _days(days: np.ndarray) -> pa.Array:
    return pa.array(days.astype("M8[us]")).cast(pa.timestamp("us", "UTC"))

"""The arithmetic of a statistic for compiled kernels: the `f` of `weft/kernels/cells.py`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from weft.kernels.cells import ORDERS, Add, AddPairs, Greatest, Least, Rows
from weft.kernels.rows import address_of
from weft.kernels.statistic import Number, Statistic

Compiled: TypeAlias = Rows | Add | AddPairs | Greatest | Least

_BYTES = 8


def compiled_arithmetic(statistic: Statistic, width: int, carry: int, *, inverts: bool) -> Compiled:
    """For so many keys; `carry` is how many rows after an accumulator its carry lies, 0 if it has none."""
    if width == 1 and statistic.number is not None:
        return _of_one_key(statistic, carry)
    assert statistic.rows is not None
    subtraction = statistic.rows.subtraction if inverts else None
    floats = bool(statistic.fields[0].dtype == np.float64)
    return Rows(
        combine_at=address_of(statistic.rows.combine),
        extend_at=address_of(subtraction.extend) if subtraction else 0,
        lose_at=address_of(subtraction.lose) if subtraction else 0,
        swap_at=address_of(subtraction.swap) if subtraction else 0,
        settle_at=address_of(subtraction.settle) if subtraction else 0,
        between_at=address_of(subtraction.between) if subtraction else 0,
        order=ORDERS[statistic.greatest, floats] if statistic.selective else 0,
        width=width,
        columns=len(statistic.fields),
        carry=carry * len(statistic.fields) * width * _BYTES,
    )


def _of_one_key(statistic: Statistic, carry: int) -> Add | AddPairs | Greatest | Least:
    zero = statistic.fields[0].dtype.type(0).item()
    if statistic.number is Number.ADD:
        return Add(zero, carry)
    if statistic.number is Number.ADD_PAIRS:
        return AddPairs(0, 2)
    return Greatest(zero) if statistic.number is Number.GREATEST else Least(zero)

"""Chains of transfers: a pivot, and the money followed forwards or backwards from it over two to five records.

A chain goes from record to record by bank and account, each within a window of days after the one before. The pivot is
the earliest record if the money is followed forwards, the latest if backwards. It has type 1000, more than some amount,
and is of a kind of account or bank; so is the record next to it. Between these two the money may have been split: the
other one moves more than a share of it. All other steps move the same amount. Two records alone are example B.3: the
same amount, no split. So the grid has each of its two-record chains four times, once for every ratio, and the
published size of the source's network for them, about 300, says that it was so there as well.

    forward, 3 records, ratio 2                       r1 is the pivot
        r1 ──> r2   r2.amount > r1.amount / 2
        r2 ──> r3   r3.amount = r2.amount

The sixteen forms (records × direction × kind) are written by three hands: they mean the same by different words, as
examples B.1 and B.3 do. The grid lists weak parameters before strong ones: long windows, small amounts, large ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from bench.network_workloads.query import WorkloadQuery

RECORDS = (2, 3, 4, 5)
DIRECTIONS = ("forward", "backward")
KINDS = ("account", "bank")
AMOUNTS = (50_000, 100_000)
DAYS = (60, 40, 30, 20, 10, 5)
RATIOS = (10, 5, 2, 1)

#: Where two kinds of banks meet: half of them have smaller numbers.
_MIDDLE_BANK = 150_000_000


@dataclass(frozen=True, slots=True)
class Chain:
    """The parameters of a query."""

    records: int
    direction: str
    kind: str
    amount: int
    days: int
    ratio: int

    @property
    def pivot(self) -> int:
        return 1 if self.direction == "forward" else self.records

    @property
    def beside(self) -> int:
        """The record next to the pivot."""
        return 2 if self.direction == "forward" else self.records - 1


# --- the sets --------------------------------------------------------------------------------------------------------


def manual() -> list[WorkloadQuery]:
    """QIMQOSJPFed-Manual: every combination of the parameters, 768 of them."""
    grid = product(RECORDS, DIRECTIONS, KINDS, AMOUNTS, DAYS, RATIOS)
    return [_query(number, Chain(*parameters)) for number, parameters in enumerate(grid)]


def uniform(count: int = 1_000, seed: int = 1) -> list[WorkloadQuery]:
    """QIMQOSJPFed-Uniform: parameters drawn evenly from their ranges."""
    return _drawn(count, seed, lambda chance, low, high: chance.uniform(low, high))


def normal(count: int = 1_000, seed: int = 2) -> list[WorkloadQuery]:
    """QIMQOSJPFed-Normal: drawn around the middle."""
    return _drawn(count, seed, lambda chance, low, high: chance.normal((low + high) / 2, 0.1 * (high - low)))


def gaussian_mixture(count: int = 1_000, seed: int = 3) -> list[WorkloadQuery]:
    """QIMQOSJPFed-GaussianMixture: drawn around two centres, at a fifth and at four fifths."""

    def value(chance: np.random.Generator, low: float, high: float) -> float:
        centre = 0.2 if chance.random() < 0.5 else 0.8
        return chance.normal(low + centre * (high - low), 0.1 * (high - low))

    return _drawn(count, seed, value)


def small_chains(amount: int = 100) -> list[WorkloadQuery]:
    """All sixteen forms with so small an amount that a few rows are enough to find some chains."""
    forms = product(RECORDS, DIRECTIONS, KINDS)
    return [_query(number, Chain(*form, amount, max(DAYS), max(RATIOS))) for number, form in enumerate(forms)]


_Value = Callable[[np.random.Generator, float, float], float]


def _drawn(count: int, seed: int, value: _Value) -> list[WorkloadQuery]:
    return [_query(number, chain) for number, chain in enumerate(_chains(count, seed, value))]


def _chains(count: int, seed: int, value: _Value) -> Iterator[Chain]:
    """So many chains; more of them begin with the same ones."""
    chance = np.random.default_rng(seed)

    def whole(values: tuple[int, ...]) -> int:
        low, high = min(values), max(values)
        return min(max(round(value(chance, low, high)), low), high)

    for _ in range(count):
        direction, kind = DIRECTIONS[chance.integers(2)], KINDS[chance.integers(2)]
        yield Chain(whole(RECORDS), direction, kind, whole(AMOUNTS), whole(DAYS), whole(RATIOS))


# --- the text --------------------------------------------------------------------------------------------------------


def _query(number: int, chain: Chain) -> WorkloadQuery:
    return WorkloadQuery(f"c{number:04d}", chain_select(chain))


def chain_select(chain: Chain) -> str:
    """The query: the numbers of the records and the amount of the pivot."""
    numbers = ", ".join(f"r{place}.tranid AS tranid{place}" for place in range(1, chain.records + 1))
    return f"SELECT {numbers}, r{chain.pivot}.amount AS amount FROM {chain_source(chain)}"


def chain_source(chain: Chain) -> str:
    """What follows FROM: the records and all conditions."""
    tables = ", ".join(f"fed r{place}" for place in range(1, chain.records + 1))
    return f"{tables} WHERE {' AND '.join(_conditions(chain))}"


def _conditions(chain: Chain) -> Iterator[str]:
    yield f"r{chain.pivot}.type_code = 1000"
    yield f"r{chain.pivot}.amount > {chain.amount}"
    yield from _kinds(chain)
    for first in range(1, chain.records):
        yield from _step(chain, first)


def _kinds(chain: Chain) -> Iterator[str]:
    """Of the pivot and its neighbour, the earlier comes from one kind of account or bank, the later goes to another."""
    earlier, later = sorted((chain.pivot, chain.beside))
    if chain.kind == "account":
        yield f"SUBSTRING(r{earlier}.orig_account, 1, 1) < '5'"
        yield f"SUBSTRING(r{later}.benef_account, 1, 1) >= '5'"
    else:
        yield f"r{earlier}.sbank_aba < {_MIDDLE_BANK}"
        yield f"r{later}.rbank_aba >= {_MIDDLE_BANK}"


def _step(chain: Chain, first: int) -> Iterator[str]:
    a, b = f"r{first}", f"r{first + 1}"
    hand = _hand(chain)
    yield f"{a}.rbank_aba = {b}.sbank_aba"
    yield f"{a}.benef_account = {b}.orig_account"
    yield (
        _split(chain, hand)
        if chain.records > 2 and {first, first + 1} == {chain.pivot, chain.beside}
        else (f"{b}.amount = {a}.amount" if hand == 1 else f"{a}.amount = {b}.amount")
    )
    yield f"{b}.tran_date >= {a}.tran_date" if hand == 2 else f"{a}.tran_date <= {b}.tran_date"
    yield {
        0: f"{b}.tran_date <= {a}.tran_date + INTERVAL {chain.days} DAYS",
        1: f"{a}.tran_date + INTERVAL {chain.days} DAYS >= {b}.tran_date",
        2: f"{b}.tran_date - INTERVAL {chain.days} DAYS <= {a}.tran_date",
    }[hand]


def _split(chain: Chain, hand: int) -> str:
    """A quotient where it is exact. A DECIMAL divided by three is rounded, and means something else than a product."""
    whole, part = f"r{chain.pivot}.amount", f"r{chain.beside}.amount"
    exact = 1_000 % chain.ratio == 0
    return {
        0: f"{part} > {whole} / {chain.ratio}" if exact else f"{part} * {chain.ratio} > {whole}",
        1: f"{chain.ratio} * {part} > {whole}",
        2: f"{whole} < {part} * {chain.ratio}",
    }[hand]


def _hand(chain: Chain) -> int:
    """Who has written the query: one of three."""
    place = RECORDS.index(chain.records) * 4 + DIRECTIONS.index(chain.direction) * 2 + KINDS.index(chain.kind)
    return place % 3

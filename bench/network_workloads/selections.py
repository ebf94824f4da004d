"""Selections over transfers: ranges of amounts and days, and equalities of types, banks and first characters.

Each keeps few rows, as an alert does. More of them begin with the same ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from bench.network_workloads.query import WorkloadQuery

SEED = 7

_BANKS = 1_000
_FIRST_BANK, _BANK_STEP = 100_000_000, 100_000


@dataclass(frozen=True, slots=True)
class Selection(WorkloadQuery):
    """A selection keeps its condition apart, for those who write filters and not queries."""

    condition: str


def selections(count: int, seed: int = SEED) -> list[Selection]:
    chance = random.Random(seed)
    conditions = [_condition(chance) for _ in range(count)]
    return [
        Selection(f"s{number:05d}", f"SELECT tranid, tran_date, amount FROM fed WHERE {condition}", condition)
        for number, condition in enumerate(conditions)
    ]


def _condition(chance: random.Random) -> str:
    forms = (_amounts, _bank, _type, _accounts)
    return chance.choice(forms)(chance)


def _amounts(chance: random.Random) -> str:
    low = chance.randrange(20_000, 400_000, 1_000)
    return f"amount >= {low} AND amount < {low + chance.randrange(500, 5_000, 500)}"


def _bank(chance: random.Random) -> str:
    side = chance.choice(("sbank_aba", "rbank_aba"))
    bank = _FIRST_BANK + chance.randrange(_BANKS) * _BANK_STEP
    return f"{side} = {bank} AND amount > {chance.randrange(1_000, 20_000, 500)}"


def _type(chance: random.Random) -> str:
    type_code = chance.choice((1000, 1001, 1031, 1500, 1502, 1600))
    return f"type_code = {type_code} AND amount > {chance.randrange(150_000, 900_000, 5_000)}"


def _accounts(chance: random.Random) -> str:
    initial, day = chance.randrange(10), chance.randrange(20, 31)
    return (
        f"SUBSTRING(orig_account, 1, 1) = '{initial}' AND tran_date >= '2002-11-{day}' "
        f"AND amount > {chance.randrange(60_000, 200_000, 5_000)}"
    )

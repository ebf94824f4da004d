"""Users with a few templates and constants of their own, as many applications have them, and the rows they look at."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from weft.delivery import Itinerary, Message, Span
from weft.plan.subscription import Comparison, Conjunction, Subscription

_SYMBOLS = 60
_GROUPS = ("trades", "means")
_COLUMNS = (("time", "ts"), ("symbol", "symbol"), ("price", "price"), ("quantity", "quantity"))


def members(count: int, seed: int = 1) -> list[Itinerary]:
    """Queries made from four templates: all of a symbol, a symbol above a price, a band of prices, large quantities.

    Three of four look at trades, the others at means. All queries of a stream are one group, and it publishes the
    columns that they show or compare.
    """
    chance = random.Random(seed)
    return [_member(f"user{number}", chance) for number in range(count)]


def _member(query: str, chance: random.Random) -> Itinerary:
    group = chance.choice(("trades", "trades", "trades", "means"))
    # Some symbols are asked for by many: the number of askers falls with the rank.
    symbol = f"S{min(_SYMBOLS - 1, int(chance.paretovariate(0.7)) - 1):03d}"
    of_symbol = Comparison("symbol", "=", symbol)
    low = round(chance.uniform(0, 95), 1)
    templates: tuple[Conjunction, ...] = (
        (of_symbol,),
        (of_symbol, Comparison("price", ">", low)),
        (Comparison("price", ">=", low), Comparison("price", "<", low + 5.0)),
        (Comparison("quantity", ">", chance.randrange(900, 990)),),
    )
    subscription = Subscription(group, _COLUMNS[: chance.randrange(2, 5)], (chance.choice(templates),))
    return Itinerary(query, (subscription,), (Span(group, 0, since=0),))


def rows(cycle: int, count: int) -> list[Message]:
    """What the groups publish in a cycle."""
    random_ = np.random.default_rng(cycle)
    published = []
    for group in _GROUPS:
        ranks = np.minimum(_SYMBOLS - 1, random_.zipf(1.3, count) - 1)
        table = {
            "ts": pa.array(
                cycle * 1_000_000 + np.sort(random_.integers(0, 1_000_000, count)), pa.timestamp("us", "UTC")
            ),
            "symbol": pa.array(np.char.add("S", np.char.zfill(ranks.astype(str), 3))),
            "price": pa.array(random_.uniform(0, 100, count)),
            "quantity": pa.array(random_.integers(0, 1000, count)),
        }
        published.append(Message(group, 0, pa.table(table), cycle * 1_000_000))
    return published

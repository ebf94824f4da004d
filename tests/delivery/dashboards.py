"""Workloads as dashboards make them: few templates, many constants, so that answers overlap and queries are merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.support.generator import Cycle, Workload

STREAMS = {
    "trades": "CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT, price DOUBLE) "
    "WATERMARK FOR n AS n - 3 USING memory",
    "quotes": "CREATE STREAM quotes (m BIGINT, sym STRING, bid DOUBLE) WATERMARK FOR m AS m - 2 USING memory",
    "history": "CREATE STREAM history (k BIGINT, sym STRING, qty BIGINT) "
    "WATERMARK FOR k AS k - 3 USING memory BACKFILL 15",
}

_SYMBOLS = st.sampled_from(["a", "b", "c", "d"])
_NUMBERS = st.one_of(st.none(), st.integers(-4, 9))
_PRICES = st.sampled_from([None, -1.5, -0.0, 0.0, 0.5, 1.0, 2.0, 7.25, float("inf"), float("nan")])

_CONDITIONS = st.sampled_from(
    [
        "qty > {0}",
        "qty <= {0}",
        "price > {0}.5",
        "sym = 'a'",
        "sym IN ('a', 'b')",
        "qty > {0} AND sym = 'b'",
        "qty BETWEEN {0} AND {1}",
        "qty < {0} OR price >= {1}",
        "qty + {1} > {0}",
        "sym LIKE 'a%'",
        "qty IS NULL",
        "NOT (qty > {0} AND price < {1})",
        "sym < 'c' AND qty <> {0}",
    ]
)


@st.composite
def conditions(draw: DrawFn) -> str:
    return draw(_CONDITIONS).format(draw(st.integers(-3, 6)), draw(st.integers(0, 8)))


@st.composite
def selections(draw: DrawFn) -> str:
    columns = draw(st.sampled_from(["sym", "n, sym, qty", "qty * 2 AS twice, sym", "price, n", "n, sym, qty, price"]))
    return f"SELECT {columns} FROM trades" + draw(st.sampled_from(["", f" WHERE {draw(conditions())}"]))


@dataclass(frozen=True)
class Theme:
    """What the queries of one dashboard have in common; they differ in the rest."""

    draws: Callable[[DrawFn], str]

    def query(self, draw: DrawFn) -> str:
        return self.draws(draw)


@st.composite
def join_themes(draw: DrawFn) -> Theme:
    slides = draw(st.sampled_from([("",), ("",), (" SLIDE 2", " SLIDE 4"), ("", " SLIDE 3")]))
    where = draw(st.sampled_from(["t.sym = q.sym", "t.sym = q.sym", "t.price > q.bid"]))

    def one(draw: DrawFn) -> str:
        first, second = draw(st.integers(1, 10)), draw(st.integers(1, 10))
        slide = draw(st.sampled_from(slides))
        columns = draw(st.sampled_from(["t.n, q.m", "t.sym, t.qty, q.bid", "t.n, t.price - q.bid AS gap"]))
        more = draw(st.sampled_from(["", "", f" AND t.qty > {draw(st.integers(-3, 5))}", " AND t.sym < 'c'"]))
        inputs = f"trades [ROWS {first}{slide}] AS t, quotes [ROWS {second}{slide}] AS q"
        return f"SELECT {columns} FROM {inputs} WHERE {where}{more}"

    return Theme(one)


@st.composite
def aggregate_themes(draw: DrawFn) -> Theme:
    stream = draw(st.sampled_from(["trades", "trades", "history"]))
    range_, slides = draw(st.sampled_from([6, 12])), draw(st.sampled_from([(2, 4), (3,), (4, 6), (1, 2, 3, 4, 6)]))
    where = draw(st.sampled_from(["", "", "qty > 0"]))
    grouped = draw(st.sampled_from([True, True, True, False]))

    def one(draw: DrawFn) -> str:
        functions = ["COUNT(*) AS c", "SUM(qty) AS s", "MIN(qty) AS least, MAX(qty) AS most", "AVG(qty) AS mean"]
        chosen = ", ".join(draw(st.lists(st.sampled_from(functions), min_size=1, max_size=3, unique=True)))
        of_key = draw(st.sampled_from(["", "", f"sym = '{draw(_SYMBOLS)}'", "sym < 'c'"])) if grouped else ""
        conditions = " AND ".join(filter(None, (where, of_key)))
        having = draw(
            st.sampled_from(["", "", f" HAVING COUNT(*) > {draw(st.integers(0, 3))}", " HAVING SUM(qty) > 4"])
        )
        window = f"[ROWS {range_} SLIDE {draw(st.sampled_from(slides))}]"
        return (
            f"SELECT {'sym, ' * grouped}{chosen} FROM {stream} {window}"
            f"{f' WHERE {conditions}' if conditions else ''}{' GROUP BY sym' * grouped}{having}"
        )

    return Theme(one)


def others() -> SearchStrategy[str]:
    """Queries that have a group of their own."""
    return st.sampled_from(
        [
            "SELECT sym, COUNT(*) AS c FROM trades GROUP BY sym",
            "SELECT DISTINCT sym FROM trades RETAIN 10",
            "SELECT sym FROM trades UNION ALL SELECT sym FROM quotes",
            "SELECT sym, qty FROM trades [ROWS 5 SLIDE 5]",
            "SELECT COUNT(*) AS c FROM trades [ROWS 4 SLIDE 4] EMIT EMPTY",
        ]
    )


@st.composite
def rows_of_cycle(draw: DrawFn, now: int) -> dict[str, list[dict[str, object]]]:
    def clock() -> int:
        return now + draw(st.integers(-6, 4))

    some = st.integers(0, 5)
    return {
        "trades": [
            {"n": clock(), "sym": draw(_SYMBOLS), "qty": draw(_NUMBERS), "price": draw(_PRICES)}
            for _ in range(draw(some))
        ],
        "quotes": [{"m": clock(), "sym": draw(_SYMBOLS), "bid": draw(_PRICES)} for _ in range(draw(some))],
        "history": [
            {"k": clock(), "sym": draw(_SYMBOLS), "qty": draw(_NUMBERS)} for _ in range(draw(st.integers(0, 3)))
        ],
    }


@st.composite
def dashboards(draw: DrawFn, most_queries: int = 14, cycles: int = 9) -> Workload:
    """Queries of few kinds, created and dropped between cycles."""
    plain = [Theme(lambda draw: draw(selections())), Theme(lambda draw: draw(others()))]
    kinds = st.one_of(st.sampled_from(plain), join_themes(), aggregate_themes())
    themes = draw(st.lists(kinds, min_size=1, max_size=3))
    queries = {
        f"q{number}": f"CREATE CONTINUOUS QUERY q{number} AS {draw(st.sampled_from(themes)).query(draw)}"
        for number in range(draw(st.integers(3, most_queries)))
    }
    born = {name: draw(st.integers(0, cycles - 2)) if draw(st.booleans()) else 0 for name in queries}
    dies = {
        name: draw(st.integers(born[name] + 1, cycles)) if draw(st.integers(0, 2)) == 0 else cycles for name in queries
    }
    steps = []
    now = 0
    for number in range(cycles):
        now += draw(st.integers(0, 7))
        steps.append(
            Cycle(
                draw(rows_of_cycle(now)),
                {},
                create=tuple(name for name in queries if born[name] == number),
                drop=tuple(name for name in queries if dies[name] == number),
            )
        )
    return Workload(STREAMS, queries, tuple(steps))

"""What the tests of the network share: streams, selects from text, and how networks look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

from weft.algebra import Select, Stream, Table
from weft.algebra.properties import name_of
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.sizes import SizeKey, SizeKind, SizeStatistics
from weft.plan.canonical import normalised
from weft.plan.log_ids import LogId, LogKind
from weft.sql import NamesInMemory, parse, read
from weft.sql.relation_binder import bind_relation
from weft.sql.statements import Create

_FED = """CREATE STREAM f (tran_date TIMESTAMP, tranid BIGINT, type_code INT, amount DECIMAL(18, 2), sbank_aba BIGINT,
    sbank_name STRING, rbank_aba BIGINT, rbank_name STRING, orig_account STRING, benef_account STRING)
    WATERMARK FOR tran_date AS tran_date - INTERVAL 0 SECONDS USING parquet OPTIONS (path 'x')"""
_SMALL = """CREATE STREAM {name} (clock BIGINT, a INT, b INT, k INT, s STRING, d DECIMAL(6, 1))
    WATERMARK FOR clock AS clock - 0 USING parquet OPTIONS (path 'x')"""
_TABLE = "CREATE TABLE {name} (a INT, b INT, k INT, s STRING) USING parquet OPTIONS (path 'x')"
TABLES = {name: _TABLE.format(name=name) for name in ("r1", "r2")}
STREAMS = {"f": _FED, **{name: _SMALL.format(name=name) for name in ("s", "t", "u", "v")}}


@dataclass(frozen=True)
class GivenSizes(SizeStatistics):
    """Statistics from tables; what is not in them is not known."""

    log_rows: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[tuple[str, str], int] = field(default_factory=dict)
    shares: Mapping[tuple[tuple[str, ...], str], Fraction] = field(default_factory=dict)

    def step(self, known: SizeKey) -> Fraction | None:
        if known.kind is SizeKind.SHARE:
            return self.shares.get((known.logs, known.of))
        is_rows = known.kind is SizeKind.ROWS
        number = self.log_rows.get(known.logs[0]) if is_rows else self.values.get((known.logs[0], known.of))
        return None if number is None else Fraction(number)


@cache
def names() -> NamesInMemory:
    found = NamesInMemory()
    for text in STREAMS.values():
        created = read(text, found)
        assert isinstance(created, Create)
        found.add(created.definition)
    for text in TABLES.values():
        created = read(text, found)
        assert isinstance(created, Create)
        found.add(created.definition)
    return found


def select(text: str) -> Select:
    relation = normalised(bind_relation(parse(text), names()))
    assert isinstance(relation, Select)
    return relation


def logs_of(bound: Select) -> list[str]:
    """The logs of a select's inputs, all of which are streams or tables."""
    found = []
    for item in bound.inputs:
        assert isinstance(item.source, Stream | Table)
        name = name_of(item.source)
        found.append(LogId(LogKind.TABLE, name) if isinstance(item.source, Table) else LogId(LogKind.STREAM, name))
    return found


def register(planner: Planner, place: str, text: str) -> Select:
    """Binds and registers a select."""
    bound = select(text)
    planner.register(place, bound, logs_of(bound))
    return bound


def hop(first: str, second: str, days: int, amounts: str) -> str:
    return f"""{first}.rbank_aba = {second}.sbank_aba AND {first}.benef_account = {second}.orig_account AND {amounts}
        AND {first}.tran_date <= {second}.tran_date
        AND {second}.tran_date <= {first}.tran_date + INTERVAL {days} DAYS"""


def q1(days: int = 20) -> str:
    """Q1 of the source; with 10 days it is its Q2."""
    return f"""SELECT r1.tranid AS one, r2.tranid AS two, r3.tranid AS three FROM f r1, f r2, f r3
        WHERE r1.type_code = 1000 AND r2.type_code = 1000 AND r3.type_code = 1000 AND r1.amount > 1000000
        AND {hop("r1", "r2", days, "r2.amount > 0.5 * r1.amount")}
        AND {hop("r2", "r3", days, "r2.amount = r3.amount")}"""


def shape(planner: Planner) -> list[str]:
    """A network as lines, one for each node: what it is made of, by number, and what it checks."""
    lines = []
    for number, node in planner.network.nodes.items():
        parents = " x ".join(map(str, node.parents)) or node.legs[0]
        lines.append(f"{number}: {parents} | {node.predicates.text}")
    return lines


def joins(planner: Planner) -> int:
    return sum(node.is_join for node in planner.network.nodes.values())

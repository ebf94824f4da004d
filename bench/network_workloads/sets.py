"""All sets of queries by name, each with the stream that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bench.network_workloads import fed_aggregates, fed_chains, fed_examples, med_queries
from bench.network_workloads.files import FED, MED, RecordStream
from bench.network_workloads.query import WorkloadQuery
from weft.algebra import Query
from weft.sql import NamesInMemory, read, statements


@dataclass(frozen=True)
class QuerySet:
    name: str
    stream: RecordStream
    queries: Callable[[], list[WorkloadQuery]]
    size: int


SETS = {
    each.name: each
    for each in (
        QuerySet("QIEFed-Manual", FED, fed_examples.fed_examples, 7),
        QuerySet("QIMQOSJPFed-Manual", FED, fed_chains.manual, 768),
        QuerySet("QIMQOSJPFed-Uniform", FED, fed_chains.uniform, 1_000),
        QuerySet("QIMQOSJPFed-Normal", FED, fed_chains.normal, 1_000),
        QuerySet("QIMQOSJPFed-GaussianMixture", FED, fed_chains.gaussian_mixture, 1_000),
        QuerySet("QAggreFed", FED, fed_aggregates.fed_aggregates, 350),
        QuerySet("QAggreMed", MED, med_queries.med_aggregates, 450),
        QuerySet("QIMQOSJPMed", MED, med_queries.med_joins, 565),
    )
}


def bound(stream: RecordStream, queries: Iterable[WorkloadQuery]) -> list[Query]:
    """The queries as weft understands them. Raises SqlError for the first that it does not."""
    return list(bound_one_by_one(stream, queries))


def bound_one_by_one(stream: RecordStream, queries: Iterable[WorkloadQuery]) -> Iterator[Query]:
    """The same, each when it is asked for."""
    names = NamesInMemory()
    created = read(stream.statement("anywhere"), names)
    assert isinstance(created, statements.Create)
    names.add(created.definition)
    for query in queries:
        statement = read(query.statement, names)
        assert isinstance(statement, statements.Create)
        assert isinstance(statement.definition, Query)
        yield statement.definition

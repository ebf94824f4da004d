"""Queries as distribution sees them: how heavy, whose, and which substreams they want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from weft.federation.model.substreams import Substreams


@dataclass(frozen=True)
class QuerySet:
    """Some queries, by number. Query q wants the substreams `wanted[starts[q]:starts[q + 1]]`, in ascending order.

    `load` is processor time per second on a provider of capability 1, `home` the provider next to the user, `result`
    the bytes per second of the answers, `state` the bytes that would move along with the query.
    """

    starts: NDArray[np.int64]
    wanted: NDArray[np.int32]
    load: NDArray[np.float64]
    home: NDArray[np.int32]
    result: NDArray[np.float64]
    state: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.load)

    def interest(self, query: int) -> NDArray[np.int32]:
        """The substreams that a query wants."""
        return self.wanted[self.starts[query] : self.starts[query + 1]]


def query_set(
    interests: Sequence[Sequence[int] | NDArray[np.int32]],
    load: Sequence[float],
    home: Sequence[int],
    result: Sequence[float],
    state: Sequence[float] | None = None,
) -> QuerySet:
    """Queries from the substreams that each of them wants."""
    listed = [np.unique(np.asarray(each, np.int32)) for each in interests]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in listed], dtype=np.int64)]).astype(np.int64)
    return QuerySet(
        starts=starts,
        wanted=np.concatenate([*listed, np.empty(0, np.int32)]).astype(np.int32),
        load=np.asarray(load, np.float64),
        home=np.asarray(home, np.int32),
        result=np.asarray(result, np.float64),
        state=np.asarray(load if state is None else state, np.float64),
    )


def chosen(queries: QuerySet, numbers: NDArray[np.int64] | Sequence[int]) -> QuerySet:
    """Some of the queries, in the given order."""
    picked = np.asarray(numbers, np.int64)
    starts, cells = rows(queries.starts, picked)
    return QuerySet(
        starts=starts,
        wanted=queries.wanted[cells],
        load=queries.load[picked],
        home=queries.home[picked],
        result=queries.result[picked],
        state=queries.state[picked],
    )


@numba.njit(cache=True)
def rows(starts, picked):  # type: ignore[no-untyped-def]
    """Some rows of a list of rows, of which `starts` says where each begins: where they begin then, and all cells."""
    found = np.zeros(len(picked) + 1, np.int64)
    for place in range(len(picked)):
        found[place + 1] = found[place] + starts[picked[place] + 1] - starts[picked[place]]
    cells = np.empty(found[-1], np.int64)
    for place in range(len(picked)):
        cells[found[place] : found[place + 1]] = np.arange(starts[picked[place]], starts[picked[place] + 1])
    return found, cells


def together(first: QuerySet, second: QuerySet) -> QuerySet:
    """The queries of both, those of the first before those of the second."""
    return QuerySet(
        starts=np.concatenate([first.starts, second.starts[1:] + first.starts[-1]]),
        wanted=np.concatenate([first.wanted, second.wanted]),
        load=np.concatenate([first.load, second.load]),
        home=np.concatenate([first.home, second.home]),
        result=np.concatenate([first.result, second.result]),
        state=np.concatenate([first.state, second.state]),
    )


def input_rates(queries: QuerySet, substreams: Substreams) -> NDArray[np.float64]:
    """The bytes per second that each query reads."""
    rates = np.concatenate([[0.0], np.cumsum(substreams.rate[queries.wanted])])
    found: NDArray[np.float64] = rates[queries.starts[1:]] - rates[queries.starts[:-1]]
    return found

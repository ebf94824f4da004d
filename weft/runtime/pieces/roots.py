"""What queries are evaluated as: their relations, put together with those of the queries that began with them.

Names that users gave and the order of operands play no part. Set operators share what they have in common with others
that begin in the same cycle (`weft/optimizer/share_set_operators.py`), and stay as they were put together then: their
state goes by it, and is not lost when one of the others goes. So a commit has what is not as it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.algebra import Relation
from weft.catalog.codec import dumps, loads
from weft.optimizer.share_set_operators import arranged
from weft.plan.event_time import RunningQuery
from weft.plan.normal_form import with_ordered_operands, without_names
from weft.runtime.pieces.pieces import Root
from weft.runtime.places import Place, shared_place


def roots_of(
    queries: Mapping[str, RunningQuery], shared: Collection[str], recorded: Mapping[str, str]
) -> dict[str, Root]:
    """The roots of queries. `recorded` has what commits say of those that have begun.

    Those that share nothing are evaluated as they are.
    """
    found: dict[str, Root] = {}
    beginning = [name for name in queries if name in shared and name not in recorded]
    plain = [without_names(queries[name].query.relation) for name in beginning]
    for name, written, relation in zip(beginning, plain, arranged(plain, dumps), strict=True):
        is_told = relation == with_ordered_operands(written, dumps)
        found[name] = _shared_root(queries[name], relation, "" if is_told else dumps(relation))
    for name, each in queries.items():
        if name not in shared:
            found[name] = Root(each.query.relation, Place(each.start.number))
        elif name in recorded:
            found[name] = recorded_root(each, recorded[name])
    return found


def recorded_root(registered: RunningQuery, record: str) -> Root:
    """The root of a query that shares, by what commits say of it: nothing if it is as it is written."""
    if record:
        return _shared_root(registered, loads(record), record)
    return _shared_root(registered, with_ordered_operands(without_names(registered.query.relation), dumps), "")


def _shared_root(registered: RunningQuery, relation: Relation, record: str) -> Root:
    return Root(relation, shared_place(relation, registered.start), record)

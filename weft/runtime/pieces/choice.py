"""Who evaluates a relation."""

from __future__ import annotations

from collections.abc import Callable

from weft.algebra import Query, Relation, Select, SetOperation, Stream
from weft.optimizer.network import is_shareable
from weft.runtime.pieces.pieces import Evaluator
from weft.runtime.places import Place, log_of
from weft.runtime.stages.groups.row_aggregates import row_aggregate
from weft.runtime.stages.sets.set_rows import picks_columns
from weft.runtime.stages.windows.woven_queries import NotWoven


def evaluator_for(relation: Relation, place: Place, first: int, can_weave: Callable[[Query, int], bool]) -> Evaluator:
    """Who evaluates a relation that queries share."""
    if isinstance(relation, SetOperation):
        return Evaluator.SETS
    if relation.is_grouped:
        if _reads_a_stream(relation) and can_weave(Query("", relation, None), place.query):
            return Evaluator.WEAVE
        return Evaluator.DERIVED if _can_be_derived(relation, place, first) else Evaluator.SPARK
    if picks_columns(relation) or (relation.distinct and relation.window is None):
        return Evaluator.SETS
    return Evaluator.NETWORK if is_shareable(relation) and not relation.distinct else Evaluator.SPARK


def _reads_a_stream(select: Select) -> bool:
    return len(select.inputs) == 1 and isinstance(select.inputs[0].source, Stream)


def _can_be_derived(select: Select, place: Place, first: int) -> bool:
    try:
        row_aggregate(select, log_of(select.inputs[0].source, place.below(0)), first)
    except NotWoven:
        return False
    return True

"""The rows that a representative publishes, and what subscriptions cut out of them, as naively as can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.delivery.naive import takes
from weft.algebra import Value
from weft.optimizer.group_results import GroupRepresentative
from weft.plan.subscription import Subscription


def published(
    representative: GroupRepresentative, answers: Mapping[str, Sequence[tuple[Value, ...]]]
) -> list[dict[str, Any]]:
    """The rows that a group publishes, of what its parts answer: each instance by the first part that has it."""
    rows = []
    for number, part in enumerate(representative.parts):
        for values in answers[part.query.name]:
            row = dict(zip(representative.columns, values, strict=True))
            ends = (earlier.ends for earlier in representative.parts[:number])
            if not any(each is None or row["window_end"] % each.modulus == each.residue for each in ends):
                rows.append(row)
    return rows


def delivered(subscription: Subscription, rows: Sequence[dict[str, Any]]) -> list[tuple[Value, ...]]:
    """What a subscription cuts out of published rows."""
    return [tuple(row[name] for _, name in subscription.columns) for row in rows if takes(subscription, row)]

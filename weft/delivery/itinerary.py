"""Itineraries: where a query's answers are found while groups come and go.

A group whose representative query changes begins a new epoch. A *span* says which rows of one epoch of a group are a
query's to take; a *subscription* says which of these are its answers, and what it shows of them:

    {"query": "hot",
     "subscriptions": [{"stream": "g17", "columns": {"symbol": "symbol"}, "any": [[["price", ">", 100.0]]]}],
     "spans": [{"stream": "g17", "epoch": 3, "since": 41, "until": 60},
               {"stream": "g17", "epoch": 4, "since": 60}]}

An itinerary is amended by a longer one: spans are added or get an end that lies ahead, none are taken away while rows
of them are kept anywhere. So the newest itinerary is right for all rows that were published before it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from weft.delivery.delivery_errors import DeliveryError
from weft.plan import subscription
from weft.plan.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of one epoch of a group that a query takes: those whose place is in [since, until).

    A row's place is the largest of the published columns `by`: `("window_start",)` for aggregates, the clocks for
    joins. Without any it is the cycle that published the row. TIMESTAMPs count in microseconds. A row without a place
    (NULL) is in no span that has bounds.

    `clock` are the published columns of which the largest is an answer's own clock; none if it is not published.
    """

    stream: str
    epoch: int
    by: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    clock: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Itinerary:
    """Where a query's answers are found. There is one subscription for each stream that the spans name.

    A row that lies in several spans is taken once. Of the cycle in which the query `ended`, and of later ones, it takes
    nothing; a later query of the same name has another `number`. Spans that are long over are forgotten; then the
    itinerary says nothing of what was published before the cycle `complete_from`.
    """

    query: str
    subscriptions: tuple[Subscription, ...]
    spans: tuple[Span, ...]
    ended: int | None = None
    number: int = 0
    complete_from: int | None = None

    def __post_init__(self) -> None:
        streams = [each.stream for each in self.subscriptions]
        if len(set(streams)) < len(streams):
            raise ValueError(f"query '{self.query}' has two subscriptions to one stream; join them into one")
        if missing := {span.stream for span in self.spans} - set(streams):
            raise ValueError(f"query '{self.query}' has spans of {sorted(missing)} without a subscription to it")

    @property
    def legs(self) -> tuple[tuple[Subscription, Span], ...]:
        """Each span with the subscription that cuts the answers out of its rows."""
        return tuple((self.subscription(span.stream), span) for span in self.spans)

    def subscription(self, stream: str) -> Subscription:
        return next(each for each in self.subscriptions if each.stream == stream)

    def has_ended(self, cycle: int) -> bool:
        """Whether it takes nothing of a cycle, and of those after it."""
        return self.ended is not None and cycle >= self.ended


def from_clock(itinerary: Itinerary, least: int) -> Itinerary:
    """The same without answers whose own clock is before a time. Raises DeliveryError if they do not show it."""
    if any(not span.clock for span in itinerary.spans):
        raise DeliveryError(
            f"the answers of query '{itinerary.query}' do not show their clock; let the query select it, or begin by "
            "the time of publication (since)"
        )
    legs = [_from_clock(each, span, least) for each, span in itinerary.legs]
    subscriptions = {each.stream: each for each, _ in legs}
    return replace(itinerary, subscriptions=tuple(subscriptions.values()), spans=tuple(span for _, span in legs))


def _from_clock(wanted: Subscription, span: Span, least: int) -> tuple[Subscription, Span]:
    if span.clock == span.by:
        return wanted, replace(span, since=least if span.since is None else max(span.since, least))
    (column,) = span.clock
    also = subscription.Comparison(column, ">=", least)
    return replace(wanted, any_of=tuple((*each, also) for each in wanted.any_of)), span


def needed(subscription_: Subscription, span: Span) -> frozenset[str]:
    """The published columns without which the query's rows of a span cannot be told, or shown."""
    return subscription_.needed | set(span.by)


def as_json(itinerary: Itinerary) -> dict[str, Any]:
    spans = [msgspec.to_builtins(each) for each in itinerary.spans]
    document: dict[str, Any] = {
        "query": itinerary.query,
        "subscriptions": [subscription.as_json(each) for each in itinerary.subscriptions],
        "spans": [{name: value for name, value in each.items() if value not in (None, ())} for each in spans],
    }
    further = {"ended": itinerary.ended, "number": itinerary.number or None, "complete_from": itinerary.complete_from}
    return document | {name: value for name, value in further.items() if value is not None}


def from_json(document: Mapping[str, Any]) -> Itinerary:
    read = {
        "subscriptions": tuple(subscription.from_json(each) for each in document["subscriptions"]),
        "spans": msgspec.convert(document["spans"], tuple[Span, ...]),
    }
    return Itinerary(**{**document, **read})

"""Delivery: each row of a group crosses a link once, and every user gets exactly its query's answers.

The engine's side is the `Publisher`, which writes what groups publish to a log. A user's side is `subscribe`:

    with subscribe("project/delivery", "hot", last=10) as answers:
        for batch in answers:
            print(batch.cycle, batch.table)

The rooms, in the order in which a row passes through them:

    groups       who takes answers from where, while an engine runs; how they are published, to a log and to a broker
    log          what a cycle publishes: parcels, and their log
    nats         a broker, and a source of parcels
    edges        processes that take rows once over a link, for many users
    matching     which rows are whose, for thousands of subscriptions at once
    subscribers  where a user begins, and what it holds in hand
"""

from weft.delivery.groups.publisher import Publisher
from weft.delivery.log.delivery_errors import AccessDenied, BrokerError, DeliveryError, LogError, UnknownQuery
from weft.delivery.log.delivery_log import Limits
from weft.delivery.log.itinerary import Itinerary, Span
from weft.delivery.log.parcel import Batch, Dropped, Message
from weft.delivery.subscribers.subscribe import subscribe
from weft.delivery.subscribers.subscriber import Subscriber

__all__ = [
    "AccessDenied",
    "Batch",
    "BrokerError",
    "DeliveryError",
    "Dropped",
    "Itinerary",
    "Limits",
    "LogError",
    "Message",
    "Publisher",
    "Span",
    "Subscriber",
    "UnknownQuery",
    "subscribe",
]

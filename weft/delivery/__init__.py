"""Delivery: each row of a group crosses a link once, and every user gets exactly its query's answers.

The engine's side is the `Publisher`, which writes what groups publish to a log. A user's side is `subscribe`:

    with subscribe("project/delivery", "hot", last=10) as answers:
        for batch in answers:
            print(batch.cycle, batch.table)

Below, in the order in which a row passes through them:

    assignment, control            who takes answers from where, while an engine runs
    publisher, nats_broker         how they are published, to a log and to a broker, and come from it
    delivery_log, parcel           what a cycle publishes; `itinerary`: which rows of it are a query's
    relay, edge                    how they come to many users over one link
    members, subscription_index    which rows are whose, for thousands of subscriptions at once
    hub, subscribe                 where a user begins, and what it holds in hand
"""

from weft.delivery.delivery_errors import AccessDenied, BrokerError, DeliveryError, LogError, UnknownQuery
from weft.delivery.delivery_log import Limits
from weft.delivery.itinerary import Itinerary, Span
from weft.delivery.parcel import Batch, Dropped, Message
from weft.delivery.publisher import Publisher
from weft.delivery.subscribe import subscribe
from weft.delivery.subscriber import Subscriber

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

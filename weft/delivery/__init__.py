"""Delivery: each row of a group crosses a link once, and every user gets exactly its query's answers.

The engine's side is the `Publisher`, which writes what groups publish to a log. A user's side is `subscribe`:

    with subscribe("project/delivery", "hot", last=10) as answers:
        for batch in answers:
            print(batch.cycle, batch.table)
"""

from weft.delivery.batch import Batch, Dropped
from weft.delivery.errors import AccessDenied, BrokerError, DeliveryError, LogError, UnknownQuery
from weft.delivery.itinerary import Itinerary, Span
from weft.delivery.log import Limits
from weft.delivery.publisher import Published, Publisher
from weft.delivery.users.subscribe import subscribe
from weft.delivery.users.subscriber import Subscriber

__all__ = [
    "AccessDenied",
    "Batch",
    "BrokerError",
    "DeliveryError",
    "Dropped",
    "Itinerary",
    "Limits",
    "LogError",
    "Published",
    "Publisher",
    "Span",
    "Subscriber",
    "UnknownQuery",
    "subscribe",
]

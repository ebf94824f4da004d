"""Delivery over a real broker: many members behind four edges on NATS, against one stream for each query.

`measure(quick)` is part of `python -m bench.delivery`; alone it runs as `python -m bench.delivery_transport`.
"""

from bench.delivery_transport.measure import DEFINITIONS, Measured, measure

__all__ = ["DEFINITIONS", "Measured", "measure"]

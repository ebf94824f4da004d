"""Aggregates over rows that are in the driver: of joins, of other aggregates, of other queries' answers."""

"""Aggregates over rows in the driver: the answers of joins, other aggregates and set operators.

The trees and running aggregates of aggregates over streams (`stages/windows`) answer them; each row is one partial.
"""

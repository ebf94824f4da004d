"""Aggregates over rows in the driver: the answers of joins, other aggregates and set operators.

They are answered by the trees and running aggregates that answer aggregates over streams (`stages/windows`). Only the
partials are made here and not by Spark: every row is one (`row_aggregates.py`). `stage.py` has the groups and open
windows of all such aggregates, from cycle to cycle.
"""

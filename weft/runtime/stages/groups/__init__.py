"""Aggregates over rows that the driver has: what joins, other aggregates and set operators give.

They are answered by the very trees and totals that aggregates over streams are answered by (`stages/windows`). Only
the partials are made here and not by Spark: every row is one.

shape.py          what an aggregate needs of the rows
row_partials.py   rows as partials
stage.py          the groups and open windows of all such aggregates, from cycle to cycle
"""

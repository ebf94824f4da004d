"""A query over a stream as plain SQL over a table with all rows so far: what one would run again and again."""

from __future__ import annotations

import re

_DAY_GROUPS = re.compile(r"SELECT ((?:(?!SELECT ).)*?) FROM (\w+) \[RANGE 1 DAY SLIDE 1 DAY\] GROUP BY (.*?) HAVING")
_DAYS_MEET = re.compile(r"FROM (\w+) \[NOW\] (\w+), (\w+) \[NOW\] (\w+) WHERE")
_WINDOW = re.compile(r" \[RANGE (?:UNBOUNDED|1 DAY)\]")
_INTERVAL = re.compile(r"INTERVAL (\d+) DAYS")


def over_a_table(select: str) -> str:
    """The same in Spark's SQL. Windows of a day become groups of a day: the clocks of the workloads are days."""
    text = _DAY_GROUPS.sub(r"SELECT tran_date AS window_start, \1 FROM \2 GROUP BY tran_date, \3 HAVING", select)
    text = _DAYS_MEET.sub(r"FROM \1 \2, \3 \4 WHERE \2.window_start = \4.window_start AND", text)
    return _WINDOW.sub("", text).removesuffix(" RETAIN UNBOUNDED")


def for_duckdb(select: str) -> str:
    """The same in DuckDB's SQL, which writes lengths of time as texts."""
    return _INTERVAL.sub(r"INTERVAL '\1 days'", over_a_table(select))

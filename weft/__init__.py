"""weft: many continuous queries, one Spark pipeline."""

__version__ = "0.1.0"

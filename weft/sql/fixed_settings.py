"""Settings of Spark that answers depend on. weft fixes them, so that a query means the same in every process.

`docs/running.md` lists them with their reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Fixed:
    """A setting, or all settings below a prefix that ends with a dot, and why nobody may choose it."""

    name: str
    reason: str

    def covers(self, name: str) -> bool:
        """Whether `name`, in small letters, is this setting or one below the prefix."""
        own = self.name.lower()
        return name.startswith(own) if own.endswith(".") else name == own


FIXED: Final = (
    Fixed("spark.sql.session.timeZone", "answers are defined in UTC"),
    Fixed("spark.sql.variable.substitute", "Spark would replace ${…} inside texts and names"),
    Fixed("spark.sql.ansi.", "it changes what arithmetic, casts and quotes mean"),
    Fixed("spark.sql.parser.", "it changes what texts and names mean"),
    Fixed("spark.sql.legacy.", "it brings back what older versions of Spark answered"),
    Fixed("spark.sql.caseSensitive", "names do not depend on upper and lower case"),
    Fixed("spark.sql.path.", "it changes which function a name means"),
    Fixed("spark.sql.function.", "it changes the types of functions"),
    Fixed("spark.sql.icu.", "it changes UPPER and LOWER"),
    Fixed("spark.sql.collation.", "it changes how texts compare"),
    Fixed("spark.sql.session.collation.", "it changes how texts compare"),
    Fixed("spark.sql.decimalOperations.", "it changes the digits of DECIMALs"),
    Fixed("spark.sql.timestampType", "it changes what TIMESTAMP means"),
    Fixed("spark.sql.storeAssignmentPolicy", "it changes how values become those of another type"),
    Fixed("spark.sql.mapKeyDedupPolicy", "it changes what a repeated key means"),
    Fixed("spark.sql.groupByOrdinal", "it changes what a number in GROUP BY means"),
    Fixed("spark.sql.groupByAliases", "it changes what a name in GROUP BY means"),
    Fixed("spark.sql.orderByOrdinal", "it changes what a number in ORDER BY means"),
    Fixed("spark.sql.charAsVarchar", "it changes the types of columns"),
    Fixed("spark.sql.preserveCharVarcharTypeInfo", "it changes the types of columns"),
    Fixed("spark.sql.readSideCharPadding", "it changes the texts of columns"),
    Fixed("spark.sql.binaryOutputStyle", "it changes how bytes are written as text"),
    Fixed("spark.sql.columnNameOfCorruptRecord", "weft finds unreadable records by it"),
    Fixed("spark.sql.files.ignoreCorruptFiles", "rows would be missing without a word"),
    Fixed("spark.sql.files.ignoreMissingFiles", "rows would be missing without a word"),
    Fixed("spark.sql.files.ignoreInvalidPartitionPaths", "rows would be missing without a word"),
    Fixed("spark.sql.files.ignoredPathSegmentRegex", "rows would be missing without a word"),
    Fixed("spark.sql.sources.partitionColumnTypeInference.enabled", "it changes the types of columns"),
    Fixed("spark.sql.parquet.filterPushdown", "a pushed filter takes -0.0 for another number than 0.0"),
    Fixed("spark.sql.parquet.recordLevelFilter.enabled", "a pushed filter takes -0.0 for another number than 0.0"),
    Fixed("spark.sql.parquet.binaryAsString", "it changes the types of columns"),
    Fixed("spark.sql.parquet.int96AsTimestamp", "it changes the types of columns"),
    Fixed("spark.sql.parquet.int96TimestampConversion", "it changes the times in files"),
    Fixed("spark.sql.parquet.inferTimestampNTZ.enabled", "it changes the types of columns"),
    Fixed("spark.sql.parquet.datetimeRebaseModeInRead", "it changes the dates in files"),
    Fixed("spark.sql.parquet.int96RebaseModeInRead", "it changes the times in files"),
    Fixed("spark.sql.parquet.datetimeRebaseModeInWrite", "it changes the dates in files"),
    Fixed("spark.sql.parquet.int96RebaseModeInWrite", "it changes the times in files"),
    Fixed("spark.sql.parquet.fieldId.", "it changes which column of a file is meant"),
    Fixed("spark.sql.avro.datetimeRebaseModeInRead", "it changes the dates in files"),
    Fixed("spark.sql.orc.filterPushdown", "a pushed filter takes -0.0 for another number than 0.0"),
    Fixed("spark.sql.csv.filterPushdown.enabled", "unreadable records would not be counted"),
    Fixed("spark.sql.json.filterPushdown.enabled", "unreadable records would not be counted"),
    Fixed("spark.sql.csv.parser.columnPruning.enabled", "it changes which records are unreadable"),
    Fixed("spark.sql.execution.arrow.useLargeVarTypes", "it changes the types of answers"),
    Fixed("spark.sql.streaming.noDataMicroBatches.enabled", "weft itself decides when windows close"),
)

#: The values of those that weft wants to be other than, or independent of, what Spark has by default.
VALUES: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def is_fixed(name: str) -> bool:
    """Whether weft alone decides about a setting."""
    return _covering(name) is not None


def refusal(name: str) -> str | None:
    """The sentence that refuses a setting which weft fixes; None for any other setting."""
    found = _covering(name)
    return None if found is None else f"{name} cannot be set: {found.reason}"


def _covering(name: str) -> Fixed | None:
    folded = name.lower()
    return next((each for each in FIXED if each.covers(folded)), None)

"""Settings: those of a project, with their defaults, and those of Spark that answers depend on.

weft fixes the latter, so that a query means the same in every process; `docs/running.md` lists them with their reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, cast

from weft.algebra import Value
from weft.sql import durations


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a setting is unless SET, and the values it may have. None: any number or length of time; none: any text."""

    default: str
    choices: tuple[str, ...] | None = None


#: The settings that SET takes, besides Spark's.
SETTINGS: Final[Mapping[str, _Setting]] = MappingProxyType(
    {
        "sharing": _Setting("on", ("on", "off")),
        "heartbeat": _Setting("off"),
        "max_ahead": _Setting("1 day"),
        "late_rows": _Setting("count", ("count", "dead letter")),
        "max_results": _Setting("100000"),
        "error_retention": _Setting("1024"),
        "max_state_mb": _Setting("4096"),
        "max_driver_partials": _Setting("20000000"),
        "kernels": _Setting("auto", ("auto", "driver", "executors")),
        "delivery_delay": _Setting("0 seconds"),
        "delivery_every": _Setting("5 minutes"),
        "max_delivery_mb": _Setting("256"),
        "broker": _Setting("none", ()),
    }
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a project: what SET has stored, and the defaults of the others."""

    stored: Mapping[str, Value]

    @property
    def sharing(self) -> bool:
        return self._text("sharing") != "off"

    @property
    def heartbeat(self) -> int | None:
        """Microseconds of silence after which a stream's clock goes on with the time that passes; None if it waits."""
        return self._microseconds("heartbeat")

    @property
    def max_ahead(self) -> int | None:
        """How far a clock may be ahead of the machine's time, in microseconds; None if any is believed."""
        return self._microseconds("max_ahead")

    @property
    def keeps_late_rows(self) -> bool:
        return self._text("late_rows") == "dead letter"

    @property
    def max_results(self) -> int:
        """How many rows of a query's answers are kept for reading."""
        return int(self._text("max_results"))

    @property
    def error_retention(self) -> int:
        """Bytes of rows, and of answers, that are kept for queries in error."""
        return int(self._text("error_retention")) << 20

    @property
    def max_state(self) -> int:
        """Bytes of state that may be in the driver."""
        return int(self._text("max_state_mb")) << 20

    @property
    def max_driver_partials(self) -> int:
        """How many live partials a set of grouping keys may have in the driver."""
        return int(self._text("max_driver_partials"))

    @property
    def kernels(self) -> Literal["auto", "driver", "executors"]:
        """Where open windows live."""
        return cast(Literal["auto", "driver", "executors"], self._text("kernels"))

    @property
    def delivery_delay(self) -> int:
        """How long answers may wait for others before they are published, in microseconds."""
        return self._microseconds("delivery_delay") or 0

    @property
    def delivery_every(self) -> int:
        """The time between two rounds of grouping, in microseconds."""
        return self._microseconds("delivery_every") or 0

    @property
    def max_delivery(self) -> int:
        """Bytes that the delivery log may have."""
        return int(self._text("max_delivery_mb")) << 20

    @property
    def broker(self) -> str | None:
        """The address that rows are forwarded to."""
        address = self._text("broker")
        return None if address == "none" else address

    def _text(self, name: str) -> str:
        return str(self.stored.get(name, SETTINGS[name].default))

    def _microseconds(self, name: str) -> int | None:
        """A length of time; a bare number is in seconds; None if it is off."""
        value = self._text(name)
        if value == "off":
            return None
        return int(value) * 1_000_000 if value.isdigit() else durations.parse(value)


def is_amount(value: str) -> bool:
    """Whether a text is a number, a length of time, or off."""
    try:
        return value.isdigit() or value.lower() == "off" or durations.parse(value) >= 0
    except durations.BadDuration:
        return False


# -- settings of Spark ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fixed:
    """A setting, or all settings below a prefix that ends with a dot, and why it cannot be chosen."""

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
FIXED_VALUES: Final = {
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


def fixed_refusal(name: str) -> str | None:
    """The sentence that refuses a setting which weft fixes; None for any other setting."""
    found = _covering(name)
    return None if found is None else f"{name} cannot be set: {found.reason}"


def _covering(name: str) -> Fixed | None:
    folded = name.lower()
    return next((each for each in FIXED if each.covers(folded)), None)

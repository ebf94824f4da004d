"""Settings: those of a project, with their defaults, and those of Spark that answers depend on.

weft fixes the latter, so that a query means the same in every process; `docs/running.md` lists them with their reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, Literal, TypeVar, cast

from weft.algebra import Value
from weft.sql import durations

T = TypeVar("T")
_Host = Literal["auto", "driver", "executors"]


def _microseconds(value: str) -> int | None:
    """A length of time; a bare number is in seconds; None if it is off."""
    if value == "off":
        return None
    return int(value) * 1_000_000 if value.isdigit() else durations.parse(value)


def _megabytes(value: str) -> int:
    return int(value) << 20


@dataclass(frozen=True, slots=True)
class _Setting(Generic[T]):
    """What a setting is unless SET, what its text means, and the texts it may have.

    Without `choices`, they are any number or length of time; with none to choose from, any text.
    """

    name: str
    default: str
    meaning: Callable[[str], T]
    choices: tuple[str, ...] | None = None

    def __get__(self, settings: Settings, owner: type[Settings]) -> T:
        return self.meaning(str(settings.stored.get(self.name, self.default)))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a project: what SET has stored, and the defaults of the others."""

    stored: Mapping[str, Value]

    sharing = _Setting("sharing", "on", lambda value: value != "off", ("on", "off"))
    #: Microseconds of silence after which a stream's clock goes on with the time that passes; None if it waits.
    heartbeat = _Setting("heartbeat", "off", _microseconds)
    #: How far a clock may be ahead of the machine's time, in microseconds; None if any is believed.
    max_ahead = _Setting("max_ahead", "1 day", _microseconds)
    keeps_late_rows = _Setting("late_rows", "count", lambda value: value == "dead letter", ("count", "dead letter"))
    #: How many rows of a query's answers are kept for reading.
    max_results = _Setting("max_results", "100000", int)
    #: Bytes of rows, and of answers, that are kept for queries in error.
    error_retention = _Setting("error_retention", "1024", _megabytes)
    #: Bytes of state that may be in the driver.
    max_state = _Setting("max_state_mb", "4096", _megabytes)
    #: How many live partials a set of grouping keys may have in the driver.
    max_driver_partials = _Setting("max_driver_partials", "20000000", int)
    #: Where open windows live.
    kernels = _Setting("kernels", "auto", lambda value: cast(_Host, value), ("auto", "driver", "executors"))
    #: How long answers may wait for others before they are published, in microseconds.
    delivery_delay = _Setting("delivery_delay", "0 seconds", lambda value: _microseconds(value) or 0)
    #: The time between two rounds of grouping, in microseconds.
    delivery_every = _Setting("delivery_every", "5 minutes", lambda value: _microseconds(value) or 0)
    #: Bytes that the delivery log may have.
    max_delivery = _Setting("max_delivery_mb", "256", _megabytes)
    #: The address that rows are forwarded to.
    broker = _Setting("broker", "none", lambda value: None if value == "none" else value, ())


#: The settings that SET takes, besides Spark's.
SETTINGS: Final[Mapping[str, _Setting[object]]] = MappingProxyType(
    {each.name: each for each in vars(Settings).values() if isinstance(each, _Setting)}
)

#: The setting that holds the folders that statements may name, one per line.
ALLOWED_PATHS: Final = "allowed_paths"


def setting_refusal(name: str, roots: Sequence[str] | None) -> str | None:
    """Why statements of a project with these folders cannot set something; None if they can."""
    if name.lower() == ALLOWED_PATHS:
        return f"{ALLOWED_PATHS} cannot be SET: run weft init with --allow"
    if roots is not None and name.startswith("spark."):
        return "this project limits what may be read and written, and settings of Spark could lift that"
    return None


def is_amount(value: str) -> bool:
    """Whether a text is a number, a length of time, or off."""
    try:
        return value.isdigit() or value.lower() == "off" or durations.parse(value) >= 0
    except durations.BadDuration:
        return False


# -- settings of Spark ------------------------------------------------------------------------------------------------

#: Why settings below spark.sql cannot be chosen: the settings, and prefixes that end with a dot.
_FIXED: Final = {
    "answers are defined in UTC": "session.timeZone",
    "Spark would replace ${…} inside texts and names": "variable.substitute",
    "it changes what arithmetic, casts and quotes mean": "ansi.",
    "it changes what texts and names mean": "parser.",
    "it brings back what older versions of Spark answered": "legacy.",
    "names do not depend on upper and lower case": "caseSensitive",
    "it changes which function a name means": "path.",
    "it changes the types of functions": "function.",
    "it changes UPPER and LOWER": "icu.",
    "it changes how texts compare": "collation. session.collation.",
    "it changes the digits of DECIMALs": "decimalOperations.",
    "it changes what TIMESTAMP means": "timestampType",
    "it changes how values become those of another type": "storeAssignmentPolicy",
    "it changes what a repeated key means": "mapKeyDedupPolicy",
    "it changes what a number in GROUP BY means": "groupByOrdinal",
    "it changes what a name in GROUP BY means": "groupByAliases",
    "it changes what a number in ORDER BY means": "orderByOrdinal",
    "it changes the types of columns": (
        "charAsVarchar preserveCharVarcharTypeInfo sources.partitionColumnTypeInference.enabled "
        "parquet.binaryAsString parquet.int96AsTimestamp parquet.inferTimestampNTZ.enabled"
    ),
    "it changes the texts of columns": "readSideCharPadding",
    "it changes how bytes are written as text": "binaryOutputStyle",
    "weft finds unreadable records by it": "columnNameOfCorruptRecord",
    "rows would be missing without a word": (
        "files.ignoreCorruptFiles files.ignoreMissingFiles files.ignoreInvalidPartitionPaths "
        "files.ignoredPathSegmentRegex"
    ),
    "a pushed filter takes -0.0 for another number than 0.0": (
        "parquet.filterPushdown parquet.recordLevelFilter.enabled orc.filterPushdown"
    ),
    "it changes the times in files": (
        "parquet.int96TimestampConversion parquet.int96RebaseModeInRead parquet.int96RebaseModeInWrite"
    ),
    "it changes the dates in files": (
        "parquet.datetimeRebaseModeInRead parquet.datetimeRebaseModeInWrite avro.datetimeRebaseModeInRead"
    ),
    "it changes which column of a file is meant": "parquet.fieldId.",
    "unreadable records would not be counted": "csv.filterPushdown.enabled json.filterPushdown.enabled",
    "it changes which records are unreadable": "csv.parser.columnPruning.enabled",
    "it changes the types of answers": "execution.arrow.useLargeVarTypes",
    "weft itself decides when windows close": "streaming.noDataMicroBatches.enabled",
}

#: The reason why a setting of Spark, or all settings below a prefix that ends with a dot, cannot be chosen.
FIXED: Final = {f"spark.sql.{name}": reason for reason, names in _FIXED.items() for name in names.split()}

#: The values of those that weft wants to be other than, or independent of, what Spark has by default.
FIXED_VALUES: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def fixed_refusal(name: str) -> str | None:
    """The sentence that refuses a setting about which weft alone decides; None for any other setting."""
    folded = name.lower()
    for own, reason in FIXED.items():
        if folded == own.lower() or (own.endswith(".") and folded.startswith(own.lower())):
            return f"{name} cannot be set: {reason}"
    return None

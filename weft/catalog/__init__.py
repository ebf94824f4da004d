"""What is registered, measured and planned, in one SQLite file."""

from weft.catalog.catalog import CATALOG_FILE, Catalog, CycleStatistics, PlanVersion, Request
from weft.catalog.catalog_errors import (
    CatalogCorrupt,
    CatalogError,
    CatalogLocked,
    CatalogLost,
    CatalogMissing,
    CatalogReadOnly,
    CatalogTooNew,
    CatalogTooOld,
    CatalogUnavailable,
    CodecError,
    DuplicateName,
    NameInUse,
    NotACatalog,
    UnknownName,
)
from weft.catalog.codec import decode, encode, register
from weft.catalog.database import COPY_FILE
from weft.catalog.definitions import Representative, View
from weft.catalog.deliveries import MemberItinerary
from weft.catalog.lock import Writer, find_writer

__all__ = [
    "CATALOG_FILE",
    "COPY_FILE",
    "Catalog",
    "CatalogCorrupt",
    "CatalogError",
    "CatalogLocked",
    "CatalogLost",
    "CatalogMissing",
    "CatalogReadOnly",
    "CatalogTooNew",
    "CatalogTooOld",
    "CatalogUnavailable",
    "CodecError",
    "CycleStatistics",
    "DuplicateName",
    "MemberItinerary",
    "NameInUse",
    "NotACatalog",
    "PlanVersion",
    "Representative",
    "Request",
    "UnknownName",
    "View",
    "Writer",
    "decode",
    "encode",
    "find_writer",
    "register",
]

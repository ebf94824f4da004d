"""What is registered, measured and planned, in one SQLite file."""

from weft.algebra.codec import decode, encode, register
from weft.catalog.catalog import CATALOG_FILE, Catalog, CycleStatistics, Request
from weft.catalog.catalog_errors import CatalogError, CatalogLocked
from weft.catalog.database import COPY_FILE
from weft.catalog.definitions import Representative
from weft.catalog.deliveries import MemberItinerary
from weft.catalog.lock import Writer, find_writer

__all__ = [
    "CATALOG_FILE",
    "COPY_FILE",
    "Catalog",
    "CatalogError",
    "CatalogLocked",
    "CycleStatistics",
    "MemberItinerary",
    "Representative",
    "Request",
    "Writer",
    "decode",
    "encode",
    "find_writer",
    "register",
]

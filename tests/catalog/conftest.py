from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.examples import TRADES
from weft.catalog import Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog open for writing, with one stream in it."""
    with Catalog.open(tmp_path) as catalog:
        catalog.add(TRADES)
        yield catalog

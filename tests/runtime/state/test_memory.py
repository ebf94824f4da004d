"""One limit for the memory of all state."""

from __future__ import annotations

import pytest

from weft.runtime.spark.engine_errors import MemoryLimit
from weft.runtime.state.store import MemoryAccount, MemoryUse

MB = 1 << 20


def use(part: str, size: int, largest: int, *names: str) -> MemoryUse:
    return MemoryUse(f"the {part}", size * MB, largest * MB, names, "or drop some")


def test_parts_share_one_limit() -> None:
    account = MemoryAccount(10 * MB)
    account.grow(use("windows", 6, 6, "a"))
    assert account.room("the groups") == 4 * MB
    assert account.room("the windows") == 10 * MB
    account.grow(use("groups", 4, 4, "b"))
    assert not account.allows(use("groups", 5, 5, "b"))
    with pytest.raises(MemoryLimit, match=r"the windows need about 6\.0 MB, 11\.0 with other state in the driver"):
        account.grow(use("groups", 5, 5, "b"))


def test_the_queries_that_need_most_are_named() -> None:
    account = MemoryAccount(10 * MB)
    account.grow(use("windows", 8, 2, "a"))
    with pytest.raises(MemoryLimit) as raised:
        account.grow(use("groups", 5, 4, "b", "c"))
    assert raised.value.needing_most == ("b", "c")
    assert str(raised.value) == (
        "the groups need about 5.0 MB, 13.0 with other state in the driver, and max_state_mb allows 10.0; 4.0 of them "
        "are for b, c: SET max_state_mb higher, or drop some"
    )


def test_a_part_that_is_gone_takes_nothing() -> None:
    account = MemoryAccount(10 * MB)
    account.grow(use("windows", 6, 6, "a"))
    account.begin([use("groups", 3, 3, "b")])
    assert account.room("the windows") == 7 * MB

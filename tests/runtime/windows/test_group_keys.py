"""Keys and their numbers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.runtime.stages.windows.rollup import GroupKeys

Key = tuple[str | None, int | None, bool]

_KEYS = st.tuples(st.sampled_from(["a", "b", "", None]), st.sampled_from([None, 0, 1, -5]), st.booleans())


@given(st.lists(st.lists(_KEYS, min_size=1, max_size=8), max_size=5))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_equal_keys_have_equal_numbers_and_come_back_from_them(batches: list[list[Key]]) -> None:
    numbering, known = GroupKeys(3), {}
    for batch in batches:
        columns = [pa.chunked_array([pa.array(list(column))]) for column in zip(*batch, strict=True)]
        columns[0] = columns[0].cast(pa.string())
        columns[1] = columns[1].cast(pa.int64())
        numbers = numbering.numbers(columns, len(batch))
        for key, number in zip(batch, numbers.tolist(), strict=True):
            assert known.setdefault(key, number) == number
        assert len(set(known.values())) == len(known) == len(numbering)
        back = [each.to_pylist() for each in numbering.values(numbers)]
        assert list(zip(*back, strict=True)) == batch


def test_without_columns_there_is_one_key() -> None:
    numbering = GroupKeys(0)
    assert numbering.numbers([], 3).tolist() == [0, 0, 0]
    assert numbering.values(numbering.numbers([], 3)) == []


@pytest.mark.parametrize("times", [1, 2, 63, 64, 65, 200])
def test_keys_come_back_as_often_as_they_are_asked_for(times: int) -> None:
    numbering = GroupKeys(2)
    keys = [("a", 1), (None, 2), ("", None)]
    columns = [pa.chunked_array([list(column)]) for column in zip(*keys, strict=True)]
    found = numbering.values(numbering.numbers(columns, len(keys)), times)
    assert list(zip(*(each.to_pylist() for each in found), strict=True)) == keys * times

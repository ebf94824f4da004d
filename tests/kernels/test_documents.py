"""docs/kernels.md says what the code does."""

from __future__ import annotations

import doctest
from pathlib import Path

from weft.kernels.algorithms import ALGORITHMS

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"


def test_the_examples_of_the_page_are_true() -> None:
    failures, attempts = doctest.testfile(str(PAGE), module_relative=False)
    assert attempts > 20
    assert failures == 0


def test_the_page_lists_every_kernel_and_whether_it_serves_several_ranges() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    listed = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.endswith((" yes |", " no |"))}
    assert listed.keys() == {algorithm.title for algorithm in ALGORITHMS.values()}
    for algorithm in ALGORITHMS.values():
        assert listed[algorithm.title].endswith("| yes |" if algorithm.many_ranges else "| no |")
        assert ("inverse" in listed[algorithm.title]) == algorithm.inverts
        assert ("selective" in listed[algorithm.title]) == algorithm.selects

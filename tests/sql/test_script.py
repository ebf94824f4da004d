"""Cutting a script into statements."""

from __future__ import annotations

import pytest

from weft.sql import split


def _texts(script: str) -> list[str]:
    pieces = list(split(script))
    for piece in pieces:
        assert script[piece.start :].startswith(piece.text)
    return [piece.text for piece in pieces]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        (";;;", []),
        ("A", ["A"]),
        ("A;", ["A"]),
        ("A; B", ["A", "B"]),
        ("A;\n\nB;\n", ["A", "B"]),
        ("  A  ;", ["A"]),
        ("-- nothing\n", []),
        ("/* nothing */", []),
        ("-- about A\nA;", ["A"]),
        ("/* about A */ /* more */ A;", ["A"]),
        ("A -- not; an end\n+ 1; B", ["A -- not; an end\n+ 1", "B"]),
        ("A /* not; an end */ + 1; B", ["A /* not; an end */ + 1", "B"]),
        ("A ';'; B", ["A ';'", "B"]),
        ("A 'it''s;'; B", ["A 'it''s;'", "B"]),
        (r"A 'it\'s;'; B", [r"A 'it\'s;'", "B"]),
        ('A ";"; B', ['A ";"', "B"]),
        ("A `;`; B", ["A `;`", "B"]),
        ("A `a``;b`; B", ["A `a``;b`", "B"]),
        ("A '--'; B", ["A '--'", "B"]),
        ("A '/*'; B '*/'", ["A '/*'", "B '*/'"]),
        ("A -- it's\n; B", ["A -- it's", "B"]),
        ("日本; é", ["日本", "é"]),
    ],
)
def test_statements(script: str, expected: list[str]) -> None:
    assert _texts(script) == expected


@pytest.mark.parametrize("opening", ["'", '"', "`", "/* "])
def test_what_is_never_closed_does_not_swallow_the_rest(opening: str) -> None:
    assert _texts(f"A {opening}oops;\nB;\nC;") == [f"A {opening}oops", "B", "C"]


def test_recovery_goes_to_the_first_line_that_ends_in_a_semicolon() -> None:
    assert _texts("A 'oops\n  x; y\n  z;\nB;") == ["A 'oops\n  x; y\n  z", "B"]

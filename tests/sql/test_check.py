"""Checking a whole script: every mistake, once, in one run."""

from __future__ import annotations

from tests.sql.given import BINDER, given_names
from tests.support.golden import FIXTURES
from weft.sql import Code
from weft.sql.check import CheckReport, check

_TWENTY = (FIXTURES / "twenty_mistakes.sql").read_text(encoding="utf-8")

_STREAM = "CREATE STREAM s (ts TIMESTAMP, x INT) WATERMARK FOR ts AS ts USING json;\n"


def _found(report: CheckReport, script: str) -> list[tuple[Code, int, int]]:
    return [(problem.code, *problem.line_and_column(script)) for problem in report.problems]


def test_twenty_mistakes_are_reported_in_one_run() -> None:
    report = check(_TWENTY)
    assert _found(report, _TWENTY) == [
        (Code.UNKNOWN_SOURCE, 8, 51),
        (Code.UNKNOWN_COLUMN, 10, 47),
        (Code.AMBIGUOUS_COLUMN, 13, 10),
        (Code.TYPE_MISMATCH, 16, 64),
        (Code.BAD_ARGUMENTS, 18, 39),
        (Code.UNKNOWN_FUNCTION, 20, 39),
        (Code.NOT_BOOLEAN, 22, 64),
        (Code.NOT_GROUPED, 24, 47),
        (Code.MISPLACED_AGGREGATE, 26, 64),
        (Code.NEEDS_WINDOW, 28, 32),
        (Code.BAD_DURATION, 30, 74),
        (Code.BAD_WINDOW, 32, 66),
        (Code.UNBOUNDED_JOIN, 34, 53),
        (Code.NEEDS_RETAIN, 36, 32),
        (Code.NOT_THE_CLOCK, 38, 81),
        (Code.UNSUPPORTED, 40, 58),
        (Code.BAD_WATERMARK, 42, 45),
        (Code.UNKNOWN_TYPE, 44, 36),
        (Code.BAD_SETTING, 49, 5),
        (Code.UNTERMINATED, 51, 73),
    ]
    assert len({problem.code for problem in report.problems}) == 20
    assert all(problem.message and problem.hint for problem in report.problems)
    assert len(report.good) == 3
    assert report.skipped == 1


def test_a_good_script() -> None:
    report = check((BINDER / "given.sql").read_text(encoding="utf-8"))
    assert report.ok
    assert [query.name for query in report.queries] == ["hot", "running", "passed"]


def test_statements_see_those_before_them() -> None:
    script = _STREAM + "CREATE CONTINUOUS QUERY a AS SELECT x FROM s; CREATE CONTINUOUS QUERY b AS SELECT x FROM a;"
    assert check(script).ok
    assert not check("CREATE CONTINUOUS QUERY a AS SELECT x FROM s;" + _STREAM).ok


def test_what_builds_on_a_refused_statement_is_skipped_at_any_distance() -> None:
    script = """
        CREATE STREAM s (ts TIMESTAMP, x INT) USING json;
        CREATE VIEW v AS SELECT x FROM s;
        CREATE CONTINUOUS QUERY q AS SELECT x FROM v;
        EXPLAIN QUERY q;
        DROP CONTINUOUS QUERY q;
    """
    report = check(script)
    assert [problem.code for problem in report.problems] == [Code.BAD_WATERMARK]
    assert report.skipped == 4


def test_what_builds_on_a_statement_that_cannot_be_parsed_is_skipped() -> None:
    for broken in ("CREATE STREAM s (ts TIMESTAMP", "CREATE CONTINUOUS QUERY `s` AS SELECT (", "CREATE VIEW S AS"):
        report = check(f"{broken}; CREATE CONTINUOUS QUERY q AS SELECT x FROM s;")
        assert len(report.problems) == 1
        assert report.skipped == 1


def test_names_that_are_dropped_are_free_again() -> None:
    report = check(
        _STREAM + "CREATE CONTINUOUS QUERY q AS SELECT x FROM s; DROP CONTINUOUS QUERY q; DROP STREAM s;" + _STREAM
    )
    assert report.ok
    assert report.queries == ()


def test_what_is_read_cannot_be_dropped() -> None:
    script = _STREAM + "CREATE VIEW v AS SELECT x FROM s; DROP STREAM s;"
    assert [problem.code for problem in check(script).problems] == [Code.IN_USE]
    script = _STREAM + "CREATE VIEW v AS SELECT x FROM s; DROP VIEW v; DROP STREAM s;"
    assert check(script).ok


def test_a_script_is_checked_on_top_of_what_is_registered() -> None:
    names = given_names()
    assert check("CREATE CONTINUOUS QUERY q AS SELECT symbol FROM trades", names).ok
    assert [p.code for p in check("DROP STREAM trades", names).problems] == [Code.IN_USE]
    assert check("DROP CONTINUOUS QUERY hot; CREATE VIEW hot AS SELECT symbol FROM trades", names).ok


def test_a_create_that_repeats_what_is_registered_is_good() -> None:
    script = (BINDER / "given.sql").read_text(encoding="utf-8")
    assert check(script, given_names()).ok
    assert check(script + script).ok
    changed = script.replace("qty > 1000", "qty > 2000")
    assert [problem.code for problem in check(changed, given_names()).problems] == [Code.ALREADY_EXISTS]


def test_checking_registers_nothing() -> None:
    before = list(given_names().known_names())
    check("CREATE CONTINUOUS QUERY q AS SELECT symbol FROM trades", given_names())
    assert list(given_names().known_names()) == before


def test_an_empty_script() -> None:
    assert check("") == CheckReport((), (), 0)
    assert check(" -- nothing\n;;") == CheckReport((), (), 0)

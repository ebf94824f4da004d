"""The worked examples of the ARGUS digest that predicates alone decide, under their own names."""

from __future__ import annotations

from itertools import product

import pytest

from tests.predicates.given import condition, dense, difference, entails, stream_text, texts, union, whole
from weft.predicates.clauses import PredicateSet, set_implies
from weft.predicates.inference import inferred, with_inferred
from weft.predicates.normal_forms import by_sources, conjunctive_form
from weft.predicates.operations import assignments, standard_form, under

FED = stream_text(
    "f",
    {
        "tranid": "BIGINT",
        "type_code": "INT",
        "tran_date": "DATE",
        "amount": "DECIMAL(18, 2)",
        "sbank_aba": "BIGINT",
        "sbank_name": "STRING",
        "rbank_aba": "BIGINT",
        "orig_account": "STRING",
        "benef_account": "STRING",
    },
)
MED = stream_text(
    "m",
    {
        **dict.fromkeys(("bdate", "adate", "bym", "byear"), "DATE"),
        **dict.fromkeys(("dxs_01", "ops_01", "ops_02", "patorg", "disp"), "STRING"),
    },
)
THREE = {"r1": "f", "r2": "f", "r3": "f"}


def fed(where: str, *aliases: str) -> PredicateSet:
    return conjunctive_form(condition(where, ", ".join(f"f {alias}" for alias in aliases), FED))


def med(where: str, *aliases: str) -> PredicateSet:
    return conjunctive_form(condition(where, ", ".join(f"m {alias}" for alias in aliases), MED))


def hop(first: str, second: str, days: int, amounts: str) -> str:
    return f"""{first}.rbank_aba = {second}.sbank_aba AND {first}.benef_account = {second}.orig_account
        AND {amounts} AND {first}.tran_date <= {second}.tran_date
        AND {second}.tran_date <= {first}.tran_date + INTERVAL {days} DAYS"""


def q1(days: int = 20) -> PredicateSet:
    """Q1 of section 1.5; with 10 days it is Q2 of that section."""
    return fed(
        f"""r1.type_code = 1000 AND r2.type_code = 1000 AND r3.type_code = 1000 AND r1.amount > 1000000
        AND {hop("r1", "r2", days, "r2.amount > 0.5*r1.amount")}
        AND {hop("r2", "r3", days, "r2.amount = r3.amount")}""",
        "r1",
        "r2",
        "r3",
    )


def inferred_texts(predicates: PredicateSet) -> list[str]:
    return [" OR ".join(literal.text for literal in clause) for clause in inferred(predicates)]


def as_selection(predicates: PredicateSet, alias: str) -> PredicateSet:
    """A selection as it is indexed: over the table, not over an alias of it."""
    return under({alias: "f"}, predicates)


def test_predicate_sets_of_q1() -> None:
    parts = by_sources(with_inferred(q1()))
    p1, p2, p3 = (as_selection(parts[frozenset({alias})], alias) for alias in ("r1", "r2", "r3"))
    assert p1.text == "f.amount > 1000000 AND f.type_code = 1000"
    assert p2.text == "f.amount > 500000 AND f.type_code = 1000"
    assert p2 == p3
    assert set_implies(p1, p2)
    assert not set_implies(p2, p1)
    assert difference(p1, p2).text == "f.amount > 1000000"


def test_residual_of_ten_days_over_twenty() -> None:
    twenty, ten = with_inferred(q1(20)), with_inferred(q1(10))
    assert set_implies(ten, twenty)
    assert not set_implies(twenty, ten)
    p8 = difference(ten, twenty)
    assert [each.text for each in p8.disjunctions] == [
        "r1.tran_date - r2.tran_date >= -10",
        "r2.tran_date - r3.tran_date >= -10",
    ]
    assert union(twenty, p8) == ten


def test_transitivity_inference() -> None:
    assert inferred_texts(q1()) == ["r2.amount > 500000", "r3.amount > 500000"]
    b3 = fed(
        f"{hop('r1', 'r2', 10, 'r2.amount = r1.amount')} AND r1.amount > 1000000",
        "r1",
        "r2",
    )
    assert inferred_texts(b3) == ["r2.amount > 1000000"]
    b6 = fed(
        """(sbank_name = 'Citibank (New York State)' OR sbank_name = 'Fleet Bank')
        AND tran_date >= DATE '2002-11-20' AND tran_date <= DATE '2002-11-30'""",
        "f",
    )
    assert inferred_texts(b6) == []
    qm1 = med(
        """t2.adate > t1.adate AND t1.dxs_01 = t2.dxs_01 AND t1.dxs_01 >= '022' AND t1.dxs_01 < '023'""", "t1", "t2"
    )
    assert inferred_texts(qm1) == ["t2.dxs_01 < '023'", "t2.dxs_01 >= '022'"]


def test_classification_of_q1() -> None:
    counts = {tuple(sorted(k)): len(v.disjunctions) for k, v in by_sources(with_inferred(q1())).items()}
    assert counts == {("r1",): 2, ("r2",): 2, ("r3",): 2, ("r1", "r2"): 5, ("r2", "r3"): 5}


T_06 = [
    (("t1.a + 10 < t2.a - 1",), "t1.a - t2.a < -11"),
    (("t1.a/2 - 1 > 0",), "t1.a > 2"),
    (("t1.a - t2.a + 9 < 0",), "t1.a - t2.a < -9"),
    (("t1.a - t2.a = -9", "t2.a - t1.a = 9"), "t1.a - t2.a = -9"),
    (("t1.a < t2.b", "t2.b > t1.a"), "t1.a - t2.b < 0"),
    (("t2.a > 0.5*t1.a", "2*t2.a > t1.a", "t1.a < 2*t2.a"), "t1.a - 2*t2.a < 0"),
    (("t1.a + 2 - 1 > t2.a", "t1.a + 1 > t2.a"), "t1.a - t2.a > -1"),
    (("t1.a + (t1.c + t1.b) > 0", "t1.c + t1.a > -t1.b"), "t1.a + t1.b + t1.c > 0"),
    (("t1.a*(t1.b*2) > 0.5", "4*(t1.b*t1.a) > 1"), "t1.a*t1.b > 0.25"),
    (("t1.a - t1.b + t1.c - t1.d > 0", "t1.a + t1.c > t1.b + t1.d"), "t1.a - t1.b + t1.c - t1.d > 0"),
    (("t1.a*(t1.b + 3) > 1", "t1.a*t1.b + 3*t1.a > 1"), "3*t1.a + t1.a*t1.b > 1"),
]


@pytest.mark.parametrize(("written", "expected"), T_06)
def test_conditions_have_one_canonical_form(written: tuple[str, ...], expected: str) -> None:
    for each in written:
        assert dense(each, "s t1, s t2").text == expected


def test_conditions_on_dates_have_one_canonical_form() -> None:
    for each in (
        "r2.tran_date <= r1.tran_date + INTERVAL 20 DAYS",
        "r1.tran_date + INTERVAL 20 DAYS >= r2.tran_date",
        "r2.tran_date - r1.tran_date <= INTERVAL 20 DAYS",
    ):
        (predicates, _) = standard_form(fed(each, "r1", "r2"), {"r1": "f", "r2": "f"})
        assert predicates.text == "T1.tran_date - T2.tran_date >= -20"
        assert under({"r1": "T2", "r2": "T1"}, fed(each, "r1", "r2")).text == "T1.tran_date - T2.tran_date <= 20"
    assert fed("r1.tran_date <= r2.tran_date", "r1", "r2").text == "r1.tran_date - r2.tran_date <= 0"


def test_the_constant_has_no_say_in_the_subject() -> None:
    assert dense("2*a > 3").text == "s.a > 1.5"
    assert dense("a > 1").text == "s.a > 1"


def test_nothing_is_divided_by_a_column() -> None:
    assert dense("a*b > 0").text == "s.a*s.b > 0"
    assert not entails(dense("a*b > 0"), dense("a > 0"))
    assert not entails(dense("a > 0"), dense("a*b > 0"))


def test_literal_subsumption() -> None:
    assert set_implies(dense("a > 10"), dense("a >= 5"))
    assert not set_implies(dense("a >= 5"), dense("a > 5"))
    assert set_implies(dense("a > 5"), dense("a >= 5"))


def test_a_narrower_predicate_set_implies_a_wider_one() -> None:
    assert set_implies(dense("a > 2 AND a < 3"), dense("a > 1 AND a < 4"))
    assert not set_implies(dense("a > 2 AND a < 5"), dense("a > 1 AND a < 4"))
    assert set_implies(dense("a > 2 AND a < 3"), dense("a < 4 OR a > 5"))


def test_implication_is_found_where_printed_tests_of_size_miss_it() -> None:
    assert set_implies(dense("a = 1 OR a = 2"), dense("a < 3"))
    # `a < 5 OR a > 1` is no condition on a at all, so the example needs another gap than the printed one.
    assert set_implies(dense("a = 3"), dense("a < 5 OR b > 1"))
    assert set_implies(dense("a > 5 AND b < 3"), dense("a > 0"))
    assert set_implies(dense("a < 3"), dense("a < 5 OR b < 5"))
    assert dense("a < 5 OR a > 1").text == "s.a IS NOT NULL"
    assert set_implies(dense("a = 3"), dense("a < 5 OR a > 1"))


def test_predicate_sets_have_union_and_difference() -> None:
    assert texts(union(dense("a > 1 AND b = 2"), dense("a > 3"))) == ["a > 3", "b = 2"]
    assert union(dense("a > 1"), dense("a > 1")) == dense("a > 1")
    p1 = fed("type_code = 1000 AND amount > 1000000", "f")
    p2 = fed("type_code = 1000 AND amount > 500000", "f")
    assert difference(p1, p2) == fed("amount > 1000000", "f")


def test_aliases_may_change_their_roles() -> None:
    written = fed(hop("r1", "r2", 20, "r2.amount > 0.5*r1.amount"), "r1", "r2")
    swapped = fed(hop("x2", "x1", 20, "2*x1.amount > x2.amount"), "x1", "x2")
    tables = {"x1": "f", "x2": "f"}
    registered = under({"r1": "T1", "r2": "T2"}, written)
    assert [under(each, swapped) == registered for each in assignments(tables, dict.fromkeys(tables, 0))] == [
        False,
        True,
    ]
    assert standard_form(written, {"r1": "f", "r2": "f"})[0] == standard_form(swapped, tables)[0]


def test_copies_of_q1_are_one() -> None:
    renamed = fed(
        f"""{hop("b", "a", 20, "a.amount = b.amount")} AND {hop("c", "b", 20, "2*b.amount > c.amount")}
        AND c.amount - 1000000 > 0 AND 1000 = a.type_code AND NOT b.type_code != 1000 AND c.type_code IN (1000)""",
        "a",
        "b",
        "c",
    )
    tables = {"a": "f", "b": "f", "c": "f"}
    assert standard_form(with_inferred(renamed), tables)[0] == standard_form(with_inferred(q1()), THREE)[0]


ID_BIRTH = """(t1.bdate = t2.bdate OR ((t1.bdate IS NULL OR t2.bdate IS NULL) AND t1.bym = t2.bym)
    OR ((t1.bdate IS NULL OR t2.bdate IS NULL) AND (t1.bym IS NULL OR t2.bym IS NULL) AND t1.byear = t2.byear))"""
ID_ORIGIN = """(t1.patorg = t2.patorg OR (t1.patorg = '9' AND t2.patorg = '1')
    OR t1.patorg = '7' OR t2.patorg = '7')"""


def disjunctions(predicates: PredicateSet) -> set[frozenset[str]]:
    return {frozenset(literal.text for literal in each.literals) for each in predicates.disjunctions}


def test_conjunctive_form_of_qm4() -> None:
    a, b, c = (f"t1.{each} - t2.{each} = 0" for each in ("bdate", "bym", "byear"))
    n1, n2, m1, m2 = (f"{t}.{each} IS NULL" for each, t in product(("bdate", "bym"), ("t1", "t2")))
    assert disjunctions(med(ID_BIRTH, "t1", "t2")) == {
        frozenset({a, n1, n2}),
        frozenset({a, b, m1, m2}),
        frozenset({a, b, c}),
    }
    e, f, g = "t1.patorg = t2.patorg", "t1.patorg = '9'", "t2.patorg = '1'"
    h, i = "t1.patorg = '7'", "t2.patorg = '7'"
    assert disjunctions(med(ID_ORIGIN, "t1", "t2")) == {frozenset({e, f, h, i}), frozenset({e, g, h, i})}


def test_conjunctive_form_of_qm5() -> None:
    predicates = med("(ops_01 >= '361' AND ops_01 < '362') OR (ops_02 >= '361' AND ops_02 < '362')", "m")
    assert disjunctions(predicates) == {
        frozenset({f"m.ops_01 {one}", f"m.ops_02 {two}"})
        for one, two in product((">= '361'", "< '362'"), (">= '361'", "< '362'"))
    }


def test_conjunctive_form_of_qm7() -> None:
    predicates = med("(dxs_01 >= '070' AND dxs_01 < '071') OR (dxs_01 >= '570' AND dxs_01 < '574')", "m")
    assert disjunctions(predicates) == {
        frozenset({"m.dxs_01 >= '070'"}),
        frozenset({"m.dxs_01 < '071'", "m.dxs_01 >= '570'"}),
        frozenset({"m.dxs_01 < '574'"}),
    }


def test_what_pairs_of_disjunctions_miss() -> None:
    stronger, weaker = dense("(a < 4 OR a > 5) AND a > 4.5"), dense("a > 5")
    assert entails(stronger, weaker)
    # The normal form has found it already.
    assert stronger == weaker
    mixed = dense("(a < 4 OR b > 5) AND (a >= 4 OR b > 6)")
    assert not set_implies(mixed, dense("b > 5"))
    assert entails(mixed, dense("b > 5"))


def test_whole_numbers_have_neighbours() -> None:
    assert whole("a > 5") == whole("a >= 6") == whole("NOT a < 6")
    assert whole("a IN (3, 4, 5)") == whole("a BETWEEN 3 AND 5") == whole("a > 2 AND a < 6")
    assert whole("a = 5.5").is_false
    assert whole("a != 5.5") == whole("a IS NOT NULL")

"""The generator reaches the whole language, and its knobs take parts of it away."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.support.generator import queries, streams, tables
from tests.support.generator_expressions import INEXACT, TEMPLATES
from tests.support.generator_lists import EXACT_AGGREGATES, EXACT_HOLISTIC, INEXACT_AGGREGATES, INEXACT_HOLISTIC
from tests.support.generator_tables import Grammar
from weft.sql.functions import AGGREGATES, FUNCTIONS

#: Each a pattern of the language that some query must show.
CONSTRUCTS = (
    r"FROM trades \[RANGE .* SLIDE .*\]",
    r"\[ROWS .* SLIDE .*\]",
    r"ORIGIN",
    r"ORIGIN TIMESTAMP '",
    r"\[NOW\]",
    r"\[RANGE UNBOUNDED\]",
    r"FROM HOP\(",
    r"FROM TUMBLE\(",
    r"TABLE\((HOP|TUMBLE)\(TABLE \w+, DESCRIPTOR\(",
    r"GROUP BY window\(",
    r"GROUP BY window\(GREATEST\(",
    r"GROUP BY \d",
    r"HAVING",
    r"EMIT EMPTY$",
    r"window\.start",
    r"SELECT DISTINCT .* RETAIN",
    r"SELECT DISTINCT .* SLIDE",
    r"RETAIN UNBOUNDED",
    r" UNION ALL ",
    r"\) (UNION|INTERSECT|EXCEPT) (ALL )?SELECT",
    r"\] .*INTERSECT ALL ",
    r"\] .*EXCEPT ALL ",
    r" INTERSECT .* RETAIN",
    r" EXCEPT .* RETAIN",
    r" JOIN .* ON ",
    r" JOIN .* USING \(",
    r" CROSS JOIN ",
    r"BETWEEN \w\.\w+ - ",
    r"FROM \w+ x.*, \w+ y.*, \w+ z",
    r"FROM \(SELECT .*\) \w \[",
    r"WITH w AS \(",
    r"FROM q\d",
    r"APPROX_COUNT_DISTINCT",
    r"(FROM|,|JOIN) symbols [xyz]",
    r"\w+ \w \[R\w+ .* SLIDE .*\].* symbols [xyz].* GROUP BY",
)


def drawn_queries(grammar: Grammar, cases: int) -> list[str]:
    """The queries of so many random cases."""
    texts: list[str] = []

    @settings(
        max_examples=cases,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def draw(data: DataObject) -> None:
        declared = [data.draw(streams(name)) for name in ("trades", "quotes")]
        static = [data.draw(tables(name)) for name in ("symbols", "venues")]
        texts.extend(data.draw(queries(declared, grammar, 8, static=static)).values())

    draw()
    return texts


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return drawn_queries(Grammar(), 250)


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_construct_is_drawn(construct: str, texts: list[str]) -> None:
    assert any(re.search(construct, text) for text in texts)


def test_every_function_and_aggregate_is_in_a_template() -> None:
    aggregates = (*EXACT_AGGREGATES, *INEXACT_AGGREGATES, *EXACT_HOLISTIC, *INEXACT_HOLISTIC)
    templates = [*INEXACT, *(template for each in TEMPLATES.values() for template in each)]
    templates += [template for template, _ in aggregates] + ["APPROX_COUNT_DISTINCT("]
    named = {name.lower() for template in templates for name in re.findall(r"(\w+)\(", template)}
    assert {*FUNCTIONS, *AGGREGATES} <= named


def test_grammar_takes_constructs_away() -> None:
    nothing_but_selections = Grammar(
        windowed_selections=False,
        windowed_aggregates=False,
        unbounded_aggregates=False,
        joins=False,
        distinct=False,
        windowed_set_operators=False,
        set_operators_over_history=False,
        subqueries=0,
    )
    for text in drawn_queries(nothing_but_selections, 20):
        assert not re.search(r"\[|JOIN|GROUP BY|UNION|INTERSECT|EXCEPT|DISTINCT|COUNT\(|\(SELECT", text)

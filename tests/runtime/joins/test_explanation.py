"""EXPLAIN tells what the network does: golden texts, and what must hold of every set of queries."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.runtime.joins.test_stage import F, created, rows
from tests.runtime.joins.workloads import workload
from tests.runtime.workload_run import Run
from tests.support.golden import FIXTURES, Example, read_golden, rewrite_golden
from tests.support.plans import planned, shared
from weft.algebra import Query
from weft.catalog import Catalog
from weft.explain.describe_joins import shared_network
from weft.explain.explained import explained, network_document, shared_document
from weft.explain.plan_description import LOG, SharedNetwork, Sharing
from weft.loom import Loom
from weft.plan.facts import NOT_MEASURED, Measurements
from weft.runtime.state.stored_plan import StoredPlan
from weft.sql import NamesInMemory, read, statements
from weft.sql.check import check

FOLDER = FIXTURES / "explain_network"
PATH = FOLDER / "explained.sql"
EXAMPLES = read_golden(PATH)


@cache
def _given() -> tuple[Query, ...]:
    return tuple(check((FOLDER / "given.sql").read_text(encoding="utf-8")).queries)


def _answer(statement: str) -> str:
    queries = {each.name: each for each in _given()}
    names = NamesInMemory()
    names.add(*queries.values())
    asked = read(statement, names)
    assert isinstance(asked, statements.Explain)
    chosen = None if asked.query is None else queries[asked.query]
    text = explained(_given(), chosen, Measurements(), asked.format)
    # What a query means by itself is shown in another folder, what is woven too.
    paragraphs = text.split("\n\n")
    if asked.format == "TEXT":
        paragraphs = [each for each in paragraphs if not each.startswith(("query ", "stream ", "physical"))]
    if asked.format == "JSON":
        document = json.loads(text)
        del document["measured"], document["queries"][0]["relation"]
        paragraphs = [json.dumps(document, indent=1)]
    return "\n".join(paragraphs)


@pytest.fixture(scope="module", autouse=True)
def _rewritten(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-golden"):
        rewrite_golden(PATH, _answer)
        pytest.skip("golden files are rewritten; read the diff, then run the tests again")


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(example.line) for example in EXAMPLES])
def test_explaining(example: Example) -> None:
    assert _answer(example.statement) == example.expected


# -- what holds of every set of queries -------------------------------------------------------------------------------


def _drawn(seed: int) -> tuple[Query, ...]:
    told = workload(seed, queries=14)
    script = ";".join([*told.streams.values(), *told.tables.values(), *told.queries.values()])
    report = check(script)
    assert report.ok
    return tuple(report.queries)


def _network(queries: Sequence[Query]) -> SharedNetwork:
    return shared_network(queries, planned(queries))


@pytest.fixture(params=range(10))
def drawn(request: pytest.FixtureRequest) -> tuple[Query, ...]:
    return _drawn(request.param)


def test_what_queries_cost_adds_up_to_what_the_network_costs(drawn: Sequence[Query]) -> None:
    network = _network(drawn)
    assert sum(each.cost for each in network.queries.values()) == network.cost


def test_a_query_that_is_alone_costs_what_it_costs_alone(drawn: Sequence[Query]) -> None:
    for name, query in _network(drawn).queries.items():
        alone = [each for each in drawn if each.name in (name, "q0")]
        if not any("FROM q0" in each.text or "q0 " in each.text for each in alone if each.name == name):
            (only,) = (each for each in alone if each.name == name)
            assert _network([only]).cost == query.alone


def test_what_a_node_is_made_from_all_its_queries_need(drawn: Sequence[Query]) -> None:
    network = _network(drawn)
    for node in network.nodes.values():
        assert node.queries, "nobody needs it"
        assert len(node.parents) == {"log": 0, "selection": 1, "join": 2}[node.kind]
        for parent in node.parents:
            assert set(node.queries) <= set(network.nodes[parent].queries)


def test_the_nodes_of_a_query_are_shared_or_its_own(drawn: Sequence[Query]) -> None:
    network = _network(drawn)
    for name, query in network.queries.items():
        assert sorted([*query.shared, *query.own]) == sorted(query.nodes)
        assert all(network.nodes[number].is_shared for number in query.shared)
        assert all(network.nodes[number].queries == (name,) for number in query.own)
        assert {each.node for each in query.answers} <= set(query.nodes)
        for other, numbers in network.companions(name).items():
            assert network.companions(other)[name] == numbers


def test_families_have_every_join_once(drawn: Sequence[Query]) -> None:
    network = _network(drawn)
    joins = Counter(number for each in network.families for number in each.joins)
    assert joins == Counter(number for number, node in network.nodes.items() if node.kind == "join")
    for family in network.families:
        for number in family.joins:
            assert len(network.nodes[number].legs) == len(family.inputs)


def test_every_query_is_told_of_in_one_place(drawn: Sequence[Query]) -> None:
    found = shared(drawn)
    network = shared_network(drawn, planned(drawn), woven=found.woven)
    places = Counter([*found.woven, *network.queries, *network.not_networked])
    assert places == Counter(each.name for each in drawn)


def test_a_query_with_nodes_of_its_own_hears_why(drawn: Sequence[Query]) -> None:
    network = _network(drawn)
    for query in network.queries.values():
        own = [number for number in query.own if network.nodes[number].parents]
        assert bool(own) == bool(query.not_shared)
        for why in query.not_shared:
            assert why.node in own
            if why.nearest is not None:
                assert why.nearest not in query.nodes
                assert f"node {why.nearest}" in why.reason
                assert why.theirs or "late" in why.reason or "gives all that is needed" in why.reason


def test_the_document_is_json_and_has_everything(drawn: Sequence[Query]) -> None:
    network = _network(drawn)
    document = network_document(network)
    assert json.loads(json.dumps(document)) == document
    assert [each["node"] for each in document["nodes"]] == list(network.nodes)
    told = shared_document(drawn, Sharing(network=network), NOT_MEASURED)
    assert json.loads(json.dumps(told)) == told
    assert {each["query"] for each in told["queries"] if each["network"]} == network.queries.keys()


def test_one_query_is_told_of_its_own_nodes_and_the_nearest_alone() -> None:
    names = {"cleo"}
    part = _network(_given()).within(names)
    assert part.queries.keys() == names
    assert [node.kind for node in part.nodes.values()] == ["log", "join", "selection"]
    assert len(part.families) == 1


def test_many_queries_are_not_planned_again_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.explain.describe_joins._MOST_ALONE", 2)
    network = shared_network(_given(), planned(_given()), chosen="cleo")
    assert network.queries["cleo"].alone is not None
    assert network.queries["ann"].alone is None


def test_set_operators_say_whom_they_share_with_and_what_is_in_the_way() -> None:
    stream = "CREATE STREAM s (n BIGINT, v INT, w INT) WATERMARK FOR n AS n USING json;"

    def over(columns: str, operator: str) -> str:
        return (
            f" {operator} ".join(f"SELECT {columns} FROM s WHERE v > {bound}" for bound in (1, 2)) + " RETAIN UNBOUNDED"
        )

    queries = created(
        wide=over("n, v, w", "UNION"), again=over("n, v, w", "UNION"), narrow=over("v, w", "UNION"),
        less=over("n, v, w", "EXCEPT"), least=over("v, w", "EXCEPT"),
        own=f"SELECT n FROM ({over('n, v', 'INTERSECT')}) x",
    )  # fmt: skip
    told = {name: each.beside or "" for name, each in _network(check(stream + queries).queries).queries.items()}
    remembered = "values are remembered in the driver"
    assert told["wide"] == f"{remembered}, for again, narrow too"
    assert f"{remembered}, for again, wide too" in told["narrow"]
    assert told["less"] == remembered
    reason = "what EXCEPT leaves over depends on the columns that are left out"
    assert told["least"] == f"{remembered}; less has its columns and more, but {reason}"
    assert told["own"] == f"{remembered}; columns of what a set operator gives are picked in the driver"


def test_a_thousand_nodes_are_a_few_lines_and_all_there_in_json() -> None:
    stream = "CREATE STREAM s (n BIGINT, v INT, w INT) WATERMARK FOR n AS n USING json;"
    script = stream + created(**{f"q{n}": f"SELECT n FROM s WHERE v = {n}" for n in range(300)})
    queries = check(script).queries
    text = explained(queries, None, Measurements(), "TEXT")
    network = text[text.index("network:") :]
    assert len(network.splitlines()) < 300
    assert "and 261 nodes more" in network
    assert len(json.loads(explained(queries, None, Measurements(), "JSON"))["network"]["nodes"]) == 301


# -- the network that runs --------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_another_process_is_shown_the_network_that_runs(beside_oracle: Callable[[str], Run]) -> None:
    pick = random.Random(5)
    least = [pick.randint(1, 30) for _ in range(8)]
    pairs = "SELECT a.n, b.n AS m FROM f [ROWS 10] a, f [ROWS 10] b WHERE a.dst = b.src AND a.amount > {}"
    run = beside_oracle(F + created(**{f"q{n}": pairs.format(each) for n, each in enumerate(least)}))
    assert run.take(f=rows(0)) == ""
    # Planned in another order, the network would be another one, with other numbers.
    run.execute("DROP CONTINUOUS QUERY q0; DROP CONTINUOUS QUERY q1;")
    run.execute(created(q0=pairs.format(40)))
    assert run.take(f=rows(8)) == ""
    with Loom.open(run.directory, write=False) as reader:
        document = json.loads(reader.explain(format="JSON"))
        plan = StoredPlan(reader.catalog).load()
    kept = plan.network
    assert [each["node"] for each in document["network"]["nodes"]] == list(kept.nodes)
    for query in document["queries"]:
        ((answer),) = query["network"]["answers"]
        assert answer["node"] == kept.results[plan.outputs[query["query"]].node_id.text].node
    logs = [each for each in document["network"]["nodes"] if each["kind"] == LOG]
    assert [each["measured"] for each in logs] == [sum(s.rows for s in run.engine.last.logs["stream f"])]


@pytest.mark.spark
def test_a_query_that_began_without_sharing_stays_out_of_the_network(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(F)
    run.loom.execute("SET sharing = off")
    run.execute(created(q="SELECT n FROM f WHERE amount > 10"))
    assert "neither woven nor in the network: sharing is off" in run.loom.explain("q")
    assert run.take(f=rows(0)) == ""
    run.loom.execute("SET sharing = on")
    assert "neither woven nor in the network: sharing was off when it began" in run.loom.explain("q")
    run.execute(created(r="SELECT n FROM f WHERE amount > 10"))
    assert "in the network: answered by node" in run.loom.explain("r")


def test_explaining_changes_nothing(tmp_path: Path) -> None:
    with Loom.open(tmp_path) as loom:
        loom.execute((FOLDER / "given.sql").read_text(encoding="utf-8"))
        assert loom.explain() == explained(_given(), None, Measurements(), "TEXT")
    with Loom.open(tmp_path, write=False) as reader:
        assert reader.explain() == explained(_given(), None, Measurements(), "TEXT")
    with Catalog.open(tmp_path) as catalog:
        assert not catalog.plan_nodes.load({}).nodes


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_are_what_the_code_says() -> None:
    docs = FIXTURES.parents[1] / "docs"
    page, story = ((docs / name).read_text(encoding="utf-8") for name in ("explain.md", "sharing.md"))
    (script,) = re.findall(r"^```sql\n(.*?)^```", story, re.DOTALL | re.MULTILINE)
    queries = check(script).queries
    _, network, _ = explained(queries, queries[2], Measurements(), "TEXT").split("\n\n")
    assert f"```\n{network}\n```" in page
    assert f"```mermaid\n{explained(queries, None, Measurements(), 'MERMAID')}\n```" in page

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.costings import by_overlap
from lab.weaving.plans import Levels, collapse, plan_of, weave
from lab.weaving.weave_generalised import generalised_triweave, integrated
from lab.weaving.weave_groupings import Grouping, key_counts
from tests.optimizer.weave import cases
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq, edges_of_all, together
from weft.optimizer.weave.dendrogram import partition_group
from weft.windows.counting import edge_rate

QA = Acq(Window(8, 5), group_by=frozenset("A"))
QB = Acq(Window(5, 4), group_by=frozenset("BC"))
QC = Acq(Window(10, 1), group_by=frozenset("AC"))
QD = Acq(Window(5, 4), group_by=frozenset("CD"))
COUNT = key_counts({"A": 10, "B": 10, "C": 10, "D": 100}, rows=10**6)


def test_stated_grouping_is_put_together_in_the_source_example() -> None:
    """Given the weaving {a, b}, {c}: a and c are apart, so a node AC above both is left out; b and d have the same
    window and do not share, because the group-by tree has them apart."""
    tree = Grouping(
        frozenset("ABCD"),
        (
            Grouping(
                frozenset("ABC"),
                (Grouping(frozenset("AC"), (Grouping(frozenset("A")),)), Grouping(frozenset("BC"))),
                asked_for=False,
            ),
            Grouping(frozenset("CD")),
        ),
        asked_for=False,
    )
    costing = by_overlap()
    woven = [
        (partition_group({QA: 1, QB: 1}, costing), partition_group({QC: 1}, costing)),
        (partition_group({QD: 1}, costing),),
    ]
    plan = integrated(tree, woven, Fraction(7), costing)
    first, second = plan.intercedes
    assert (first.keys, second.keys) == (frozenset("ABC"), frozenset("CD"))
    assert [node.keys for node in first.left_out] == [frozenset("AC")]
    assert not first.kept
    assert plan.woven.number_of(QB) != plan.woven.number_of(QD)
    # λ, three groups at E = 1, and E·Ω: 0.7·4 for {a, b}, 10 for {c}, 1/2·2 for {d}.
    assert plan.woven.cost == 7 + 3 + Fraction("2.8") + 10 + 1


def test_a_node_stays_where_all_queries_below_it_are_in_one_group() -> None:
    tree = Grouping(
        frozenset("ABCD"),
        (
            Grouping(
                frozenset("ABC"), (Grouping(frozenset("AC"), (Grouping(frozenset("A")),)), Grouping(frozenset("BC")))
            ),
        ),
    )
    costing = by_overlap()
    root = Acq(Window(4, 4), group_by=frozenset("ABCD"))
    whole = Acq(Window(4, 4), group_by=frozenset("ABC"))
    groups = [
        (partition_group({root: 1}, costing),),
        (partition_group({QA: 1, QC: 1}, costing), partition_group({QB: 1, whole: 1}, costing)),
    ]
    plan = integrated(tree, groups, Fraction(7), costing)
    direct, first = plan.intercedes
    assert direct.keys == frozenset("ABCD")
    assert [node.keys for node in first.kept] == [frozenset("AC")]
    assert not first.left_out


def test_is_woven_set_by_set_in_the_source_example() -> None:
    """E = 1, because q_c cuts at every tick: merging a and b, or b and c, saves exactly nothing."""
    plan = generalised_triweave([QA, QB, QC, QD], 7, COUNT)
    assert [intercede.keys for intercede in plan.intercedes] == [frozenset("ABC"), frozenset("CD")]
    assert plan.intercedes[1].groups[0].members == {QD: 1}
    assert plan.woven.union_rate == 1
    # λ + 4 groups at E = 1 + 0.8 + 1 + 10 + 1, or the same with two groups merged.
    assert plan.woven.cost == 7 + 4 + Fraction("12.8")


def test_groupings_and_predicates_that_are_all_equal_leave_plain_triweave() -> None:
    windows = [Window(16, 4), Window(10, 5), Window(8, 4), Window(30, 6)]
    plan = generalised_triweave([Acq(window) for window in windows], 50, COUNT)
    alone = weave(windows).plan(50, Levels.THREE)
    assert plan.woven.cost == alone.cost
    assert plan.signatures.predicates == ()


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(
        st.builds(
            Acq,
            cases.windows(),
            group_by=st.sampled_from([frozenset("A"), frozenset("AB"), frozenset("BC"), frozenset("CD")]),
            predicate=st.sampled_from(["", "p", "q"]),
        ),
        min_size=1,
        max_size=7,
    )
)
def test_every_query_is_served_once_from_one_finest_cut(queries: list[Acq]) -> None:
    plan = generalised_triweave(queries, 5, COUNT)
    counted = collapse(queries)
    groups = [group.members for intercede in plan.intercedes for group in intercede.groups]
    assert together(groups) == counted
    assert [group.members for group in plan.woven.groups] == groups
    assert plan.edges == edges_of_all(counted)
    assert plan.woven.union_rate == edge_rate(plan.edges)
    recounted = plan_of(groups, Fraction(5), Levels.THREE, by_overlap())
    assert plan.woven.cost == recounted.cost
    for intercede in plan.intercedes:
        assert all(query.group_by <= intercede.keys for group in intercede.groups for query in group.members)
    for number, members in enumerate(groups):
        assert plan.signatures.groups[number] == {query.predicate for query in members}

"""Predicate sets as checks of columns, and what of them Spark has to compute; bounding predicates of many sets.

Rows come as a table with the columns `t<leg>_c<position>` and `t<leg>_clock`. A literal becomes a check of

    a column                         T1.amount > 100                     as it is
    a combination of columns         T2.ts - T1.ts <= 86400000000        computed here, in whole numbers that fit
    two columns' order               T1.account = T2.account             computed here
    anything else that has a value   upper(T1.name) = 'A', T1.x % 7 = 1  computed by Spark, as one column per expression
    or none that fits                2*T1.wide - T2.wide > 0             computed by Spark, as a truth value

A bounding predicate is one condition that every row of some nodes satisfies, cheap enough for Spark to check natively.
Nodes that restrict the same subjects have one bounding predicate set together: for each subject the values that some of
them allow, as few spans or as a list, and what all of them demand in the same words. A row must satisfy one of the
sets. That is weaker than the nodes together, never stronger: rows that pass are checked again, as data.

    amount > 1000 AND code = 1,   amount > 500 AND code = 7    →    amount > 500 AND (code = 1 OR code = 7)
    amount BETWEEN 600 AND 700                                 →    … OR amount BETWEEN 600 AND 700
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from math import prod

from weft.algebra import Call, Column, DataType, Expression, Field
from weft.algebra.types import BIGINT, BOOLEAN, INTERVAL, STRING
from weft.arrays.ordinals import has_ordinals, is_text
from weft.expressions.spark_expressions import Leaf, spark_sql
from weft.expressions.spark_expressions import column as position_name
from weft.plan.network import CLOCK
from weft.predicates import row_matching
from weft.predicates.clauses import TRUE_SET, Disjunction, PredicateSet, disjunction_with, set_with
from weft.predicates.domains import ValueSet, satisfying, union
from weft.predicates.literals import Triple, conjunction, disjunction, expression_of, only_value, requirements
from weft.predicates.subjects import ZERO, Order, Subject, Sum
from weft.predicates.terms import columns_of

_WIDEST = 1 << 63
_TRUE = satisfying("=", Fraction(1))


def clock_of(leg: int) -> str:
    """The column that holds the clock of a leg's row, in ticks."""
    return f"t{leg}_clock"


def clock_of_rows(legs: int) -> str:
    """The clock of a combination of rows, as SQL: the newest of its legs'."""
    clocks = [clock_of(leg) for leg in range(legs)]
    return clocks[0] if legs == 1 else f"greatest({', '.join(clocks)})"


def column_of(leg: int, local: str) -> str:
    """The column that holds a column, or a value, of a leg's row."""
    return f"t{leg}_{local}"


@dataclass(frozen=True, slots=True)
class LegValue:
    """What Spark computes of the row of one leg, as SQL over the columns `t0_…` of its log."""

    text: str
    type: DataType
    #: The columns that it is computed from.
    read: frozenset[str]


@dataclass
class Columns:
    """The columns of some legs, and which of them, and which expressions over them, are asked for.

    What is computed of one leg alone is computed once, when the row arrives, and is a column of the leg from then on.
    """

    #: The fields of each leg's log.
    legs: tuple[tuple[Field, ...], ...]
    #: What is asked for, as (leg, name within the leg).
    wanted: set[tuple[int, str]] = field(default_factory=set)
    values: dict[str, LegValue] = field(default_factory=dict)
    #: Expressions over several legs as SQL: the name of the column that will hold their value, and its type.
    computed: dict[str, tuple[str, DataType]] = field(default_factory=dict)

    def place_of(self, column: Column, first_leg: int) -> tuple[int, str]:
        """Where the column `T<n>.name` is, for rows whose legs begin at `first_leg`: its leg, and its name there."""
        leg = int(column.source[1:]) - 1 + first_leg
        if column.name == CLOCK:
            return leg, "clock"
        # Names may repeat in what a query answers; then the last one is meant, as everywhere.
        position = max(number for number, each in enumerate(self.legs[leg]) if each.name == column.name)
        return leg, position_name(position)

    def leaf(self, first_leg: int = 0) -> Leaf:
        """Columns of legs as SQL; whatever is named is asked for."""

        def text(expression: object) -> str:
            assert isinstance(expression, Column), f"{expression} is not a column of a leg"
            place = self.place_of(expression, first_leg)
            if place[1] != "clock":
                self.wanted.add(place)
            return column_of(*place)

        return text

    def value_of(self, expression: Expression, first_leg: int = 0) -> str:
        """The name of the column that holds the value of an expression."""
        leaf = self.leaf(first_leg)
        if isinstance(expression, Column):
            return leaf(expression)
        places = {self.place_of(each, first_leg) for each in columns_of(expression)}
        if len({leg for leg, _ in places}) > 1:
            return self.computed_as(spark_sql(expression, leaf), expression.type)
        leg = next((leg for leg, _ in places), 0)
        text = spark_sql(expression, lambda each: column_of(0, self.place_of(each, first_leg)[1]))  # type: ignore[arg-type]
        return self.value_of_leg(leg, text, expression.type, frozenset(local for _, local in places))

    def value_of_leg(self, leg: int, text: str, type_: DataType, read: frozenset[str]) -> str:
        """The name of the column that holds what an SQL text over the columns of one leg gives."""
        local = _name_for(text)
        self.values[local] = LegValue(text, held_type(type_), read)
        self.wanted.add((leg, local))
        return column_of(leg, local)

    def computed_as(self, text: str, type_: DataType) -> str:
        """The name of the column that holds what an SQL text gives."""
        return self.computed.setdefault(text, (_name_for(text), held_type(type_)))[0]

    def type_of(self, name: str) -> DataType:
        """The type of a column of a leg by its name."""
        leg, _, local = name.removeprefix("t").partition("_")
        if local == "clock":
            return BIGINT
        return self.values[local].type if local in self.values else held_type(self.legs[int(leg)][int(local[1:])].type)


def _name_for(text: str) -> str:
    # A name that follows from the text: rows that are held have the same columns when the network has changed.
    return f"v_{blake2b(text.encode(), digest_size=8).hexdigest()}"


def held_type(type_: DataType) -> DataType:
    """The type that the engine holds values in: intervals are numbers of microseconds."""
    return BIGINT if type_ == INTERVAL else type_


def conjunction_of(predicates: PredicateSet, columns: Columns, first_leg: int = 0) -> row_matching.Conjunction:
    """A predicate set over the legs from `first_leg` on, as checks."""
    return tuple(
        tuple(_check(literal, columns, first_leg) for literal in each.literals) for each in predicates.disjunctions
    )


def holds(name: str, wanted: bool = True) -> row_matching.Clause:
    """That a column of truth values is TRUE, or FALSE."""
    return (row_matching.Check(row_matching.PlainColumn(name), satisfying("=", Fraction(wanted))),)


def _check(literal: Triple, columns: Columns, first_leg: int) -> row_matching.Check:
    value = _value(literal, columns, first_leg)
    if value is not None:
        return row_matching.Check(value, literal.values)
    return row_matching.Check(row_matching.PlainColumn(columns.value_of(expression_of(literal), first_leg)), _TRUE)


def _value(literal: Triple, columns: Columns, first_leg: int) -> row_matching.Value | None:
    subject, leaf = literal.subject, columns.leaf(first_leg)
    if isinstance(subject, Order):
        return _compared(subject.left.expression, subject.right.expression, leaf)
    if isinstance(subject, Sum):
        is_of_zero = literal.bound is None or literal.bound == ZERO
        return (_difference(subject, leaf) if is_of_zero else None) or _combination(subject, leaf)
    expression = subject.expression
    if not (has_ordinals(expression.type) or is_text(expression.type)):
        return None
    return row_matching.PlainColumn(columns.value_of(expression, first_leg))


def _compared(left: Expression, right: Expression, leaf: Leaf) -> row_matching.Value | None:
    if not (isinstance(left, Column) and isinstance(right, Column) and left.type == right.type):
        return None
    return row_matching.ColumnComparison(leaf(left), leaf(right))


def _difference(subject: Sum, leaf: Leaf) -> row_matching.Value | None:
    """a - b compared with 0: how a and b compare. No number has to hold their difference."""
    terms = subject.polynomial.terms
    sides = [monomial[0].expression for monomial, _ in terms if len(monomial) == 1]
    if [factor for _, factor in terms] != [1, -1] or len(sides) != 2 or not has_ordinals(sides[0].type):
        return None
    return _compared(sides[0], sides[1], leaf)


def _combination(subject: Sum, leaf: Leaf) -> row_matching.Value | None:
    """A polynomial over columns in whole numbers, if 64 bits hold all its values."""
    terms = subject.polynomial.terms
    atoms = {atom: atom.expression for monomial, _ in terms for atom in monomial}
    named = {atom: each for atom, each in atoms.items() if isinstance(each, Column) and has_ordinals(each.type)}
    if named.keys() != atoms.keys():
        return None
    scales = {monomial: sum(atom.expression.type.scale for atom in monomial) for monomial, _ in terms}
    scale = max(scales.values())
    factors = {monomial: factor * 10 ** (scale - scales[monomial]) for monomial, factor in terms}
    if any(factor.denominator != 1 for factor in factors.values()):
        return None
    largest = {each: prod(max(map(abs, atom.range)) for atom in each) * 10 ** scales[each] for each in factors}
    if sum(abs(factor) * largest[monomial] for monomial, factor in factors.items()) > _WIDEST:
        return None
    products = ((int(factor), tuple(leaf(named[atom]) for atom in each)) for each, factor in factors.items())
    return row_matching.ColumnCombination(tuple(products), scale)


# -- bounding predicates ----------------------------------------------------------------------------------------------

#: Values that lie in more spans than this are taken to lie between the first and the last of them; but this many
#: single values are listed.
_MOST_SPANS = 4
_MOST_VALUES = 64

#: If nodes restrict more different sets of subjects than this, all of them share one set.
_MOST_SETS = 8

#: What conditions are made of, apart from what they compare.
_COMPARING = frozenset({"and", "or", "not", "in", "is_null", "=", "!=", "<", "<=", ">", ">=", "<=>"})


def bounding_predicates(nodes: Sequence[Sequence[Disjunction]]) -> tuple[PredicateSet, ...]:
    """What the disjunctions of every node demand, or something weaker: one of these."""
    distinct = list(dict.fromkeys(map(set_with, nodes)))
    if not distinct or TRUE_SET in distinct:
        return (TRUE_SET,)
    alike: dict[frozenset[Subject], list[PredicateSet]] = {}
    for each in distinct:
        alike.setdefault(frozenset(each.values_by_subject), []).append(each)
    if len(alike) > _MOST_SETS:
        return (_bounding(distinct),)
    return tuple(dict.fromkeys(_bounding(group) for group in alike.values()))


def bounding_condition(found: Sequence[PredicateSet]) -> Expression | None:
    """Bounding predicate sets as an expression; None if every row satisfies one of them."""
    conditions = [
        conjunction(sorted((_listed(each) for each in each_set.disjunctions), key=_effort)) for each_set in found
    ]
    restricting = [each for each in conditions if each is not None]
    return disjunction(restricting) if len(restricting) == len(conditions) else None


def _effort(expression: Expression) -> int:
    """0 where columns are compared as they are, 1 where something is computed of them first, 2 where that is of texts.

    Most rows are refused by what comes first, and then the rest is not computed: a LIKE takes much longer than all
    comparisons of numbers.
    """
    if not isinstance(expression, Call):
        return 0
    looks_at_texts = any(each.type == STRING for each in expression.args)
    here = 0 if expression.op in _COMPARING else 1 + looks_at_texts
    return max([here, *map(_effort, expression.args)])


def _bounding(nodes: Sequence[PredicateSet]) -> PredicateSet:
    boxes = [each.values_by_subject for each in nodes]
    found = set[Disjunction].intersection(*(set(each.disjunctions) for each in nodes))
    for subject in sorted(set.intersection(*(set(box) for box in boxes)), key=lambda each: each.text):
        values = _few_spans(union(box[subject] for box in boxes), subject)
        if values.spans and values != subject.domain.everything:
            found.update(disjunction_with(each) for each in requirements(subject, values))
    return set_with(each for each in found if each.literals)


def _few_spans(values: ValueSet, subject: Subject) -> ValueSet:
    if len(values.spans) <= _MOST_SPANS:
        return values
    if len(values.spans) <= _MOST_VALUES and None not in (only_value(span, subject.domain) for span in values.spans):
        return values
    return ValueSet(((values.spans[0][0], values.spans[-1][1]),), values.null)


def _listed(clause: Disjunction) -> Expression:
    """A disjunction as an expression; a long one of equations is a list, which Spark looks up."""
    literals = [expression_of(each) for each in clause.literals]
    sides = [each.args for each in literals if isinstance(each, Call) and each.op == "=" and _is_looked_up(each)]
    if len(sides) == len(literals) > _MOST_SPANS and len({left for left, _ in sides}) == 1:
        return Call("in", (sides[0][0], *(right for _, right in sides)), BOOLEAN)
    return disjunction(literals)


def _is_looked_up(equation: Call) -> bool:
    """Whether Spark finds a value in a list if and only if it is equal: for 0.0 and -0.0, say, it might not."""
    return all(side.type.is_integer or side.type == STRING for side in equation.args)

"""Terms, expressions that are not taken apart; and subjects, the left sides of canonical comparisons.

A term's text is a key: two expressions have the same text only if they are the same expression, types included. What
can be said in several ways without any change of value, not even of the last bit, is said in one: `b + a` is `a + b`.

Subjects hold every reference to a column. A subject is its text; everything else follows from it.

    Sum      a polynomial over exact atoms             T1.amount - 2*T2.amount   compared with a number
    Term     any other term                            upper(s.name)             compared with a constant of its type
    Order    two terms that are not numbers exactly    a.name, b.name            how they compare: −1, 0 or 1, with 0
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from weft.algebra import AggregateRef, Call, Column, DataType, Expression, KeyRef, Kind, Literal, WindowBound
from weft.algebra.types import INT
from weft.predicates import polynomials
from weft.predicates.domains import Domain, Facts, domain_of

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INFIX = frozenset({"=", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or", "like", "div"})
_MIRRORED = {">": "<", ">=": "<="}
#: Their arguments can change places: IEEE's sums and products of two numbers are symmetric, whatever the rounding.
_SYMMETRIC = frozenset({"+", "*", "=", "!=", "<=>"})

#: There is no other way to write these than CAST('NaN' AS DOUBLE).
_SPECIAL = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}


def text_of(expression: Expression) -> str:
    """An expression as a key.

    >>> text_of(Call("+", (Column("s", "a", INT), Literal(1, INT)), INT))
    '(s.a + 1)'
    """
    if isinstance(expression, Column):
        name = _quoted(expression.name)
        return f"{_quoted(expression.source)}.{name}" if expression.source else name
    if isinstance(expression, Literal):
        return _constant_text(expression)
    if isinstance(expression, KeyRef):
        return f"#{expression.index}"
    if isinstance(expression, AggregateRef):
        return f"@{expression.index}"
    if isinstance(expression, WindowBound):
        return "#window_end" if expression.end else "#window_start"
    args = [text_of(arg) for arg in expression.args]
    if expression.op in _INFIX:
        return "(" + f" {expression.op.upper()} ".join(args) + ")"
    if expression.op == "cast":
        return f"CAST({args[0]} AS {expression.type})"
    return f"{expression.op.upper()}({', '.join(args)})"


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _constant_text(literal: Literal) -> str:
    value, type_ = literal.value, literal.type
    if value is None:
        return f"CAST(NULL AS {type_})"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if type_.kind is Kind.STRING:
        return quoted_text(str(value))
    return str(value) if type_ == INT else f"{type_} '{value}'"


def canonical(expression: Expression) -> Expression:
    """The expression with the arguments of symmetric operators in the order of their texts.

    Its value is the same for every row. Arguments of different types keep their places: `timestamp + interval` has one
    spelling already.
    """
    if not isinstance(expression, Call):
        return expression
    args = tuple(canonical(arg) for arg in expression.args)
    op = expression.op
    if op == "cast" and expression.type.is_floating and isinstance(args[0], Literal):
        special = _SPECIAL.get(str(args[0].value).strip().lower())
        return replace(expression, args=args) if special is None else Literal(special, expression.type)
    if op in _MIRRORED:
        op, args = _MIRRORED[op], args[::-1]
    elif op in ("and", "or"):
        args = tuple(sorted(dict.fromkeys(args), key=text_of))
        if len(args) == 1:
            return args[0]
    elif op in _SYMMETRIC and args[0].type.kind is args[1].type.kind:
        args = tuple(sorted(args, key=text_of))
    elif op == "in":
        args = (args[0], *sorted(dict.fromkeys(args[1:]), key=text_of))
    return replace(expression, op=op, args=args)


def columns_of(expression: Expression) -> frozenset[Column]:
    if isinstance(expression, Column):
        return frozenset({expression})
    if isinstance(expression, Call):
        return frozenset().union(*(columns_of(arg) for arg in expression.args))
    return frozenset()


def sources_of(expression: Expression) -> frozenset[str]:
    """The aliases of the inputs that an expression reads."""
    return frozenset(column.source for column in columns_of(expression))


def with_sources(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The expression over inputs that are called by other names."""
    if isinstance(expression, Column):
        return replace(expression, source=names.get(expression.source, expression.source))
    if isinstance(expression, Call):
        return replace(expression, args=tuple(with_sources(arg, names) for arg in expression.args))
    return expression


_EXACT = frozenset({Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL})
_SIGNS = Domain(Fraction(-1), Fraction(1), Fraction(1))


def is_exact(type_: DataType) -> bool:
    """Whether values of the type are exact numbers, or are counted in days or microseconds."""
    return type_.is_integer or type_.kind in _EXACT


class _Read:
    @property
    def terms(self) -> tuple[Expression, ...]:
        """The terms that a subject is made of."""
        raise NotImplementedError

    @cached_property
    def sources(self) -> frozenset[str]:
        """The aliases of the inputs that a subject reads."""
        return frozenset().union(*(sources_of(term) for term in self.terms))


@dataclass(frozen=True)
class Sum(_Read):
    """A polynomial without constant, in the one orientation."""

    text: str
    polynomial: polynomials.Polynomial = field(compare=False, repr=False)
    domain: Domain = field(compare=False, repr=False)

    @cached_property
    def atom(self) -> polynomials.Atom | None:
        """The atom that this subject is, if it is no more than that."""
        return self.polynomial.single

    @cached_property
    def terms(self) -> tuple[Expression, ...]:
        return tuple(atom.expression for atom in sorted(self.polynomial.atoms))

    @cached_property
    def parts(self) -> tuple[Subject, ...]:
        """The subjects that must all have a value for this one to have a value, and that is enough."""
        if self.atom is not None:
            return (self,)
        return tuple(sum_of(polynomials.variable(atom))[0] for atom in sorted(self.polynomial.atoms))

    @cached_property
    def halves(self) -> tuple[tuple[Sum, Fraction], ...] | None:
        """What two inputs contribute, as two subjects with their factors; None if it is not a sum of such parts."""
        by_source: dict[tuple[str, ...], list[tuple[polynomials.Monomial, Fraction]]] = {}
        for monomial, coefficient in self.polynomial.terms:
            sources = sorted({source for atom in monomial for source in sources_of(atom.expression)})
            by_source.setdefault(tuple(sources), []).append((monomial, coefficient))
        if len(by_source) != 2 or any(len(sources) != 1 for sources in by_source):
            return None
        return tuple(sum_of(polynomials.Polynomial(tuple(by_source[sources]))) for sources in sorted(by_source))


@dataclass(frozen=True)
class Term(_Read):
    """A term of a type without exact arithmetic: text, bytes, truth or floating point."""

    text: str
    expression: Expression = field(compare=False, repr=False)
    domain: Domain = field(compare=False, repr=False)

    @property
    def terms(self) -> tuple[Expression, ...]:
        return (self.expression,)

    @property
    def parts(self) -> tuple[Subject, ...]:
        return (self,)


@dataclass(frozen=True)
class Order(_Read):
    """How two terms of one type compare. The one whose text comes first is on the left."""

    text: str
    left: Expression = field(compare=False, repr=False)
    right: Expression = field(compare=False, repr=False)
    domain: Domain = field(compare=False, repr=False)

    @property
    def terms(self) -> tuple[Expression, ...]:
        return self.left, self.right

    @cached_property
    def parts(self) -> tuple[Subject, ...]:
        return term_of(self.left), term_of(self.right)


Subject: TypeAlias = Sum | Term | Order


def atom_of(expression: Expression, facts: Facts) -> polynomials.Atom:
    """An expression of an exact type as an atom."""
    term = canonical(expression)
    known = facts.get(term) if isinstance(term, Column) else None
    return polynomials.Atom(text_of(term), term, known or domain_of(term.type))


def sum_of(varying: polynomials.Polynomial) -> tuple[Sum, Fraction]:
    """The subject of a polynomial without constant, and the factor between the two."""
    unique, factor = polynomials.oriented(varying)
    if unique.single is not None:
        return Sum(unique.single.text, unique, unique.single.domain), factor
    low, high = polynomials.range_of(unique)
    nullable = any(atom.domain.nullable for atom in unique.atoms)
    return Sum(
        polynomials.text_of_polynomial(unique), unique, Domain(low, high, polynomials.step_of(unique), nullable)
    ), factor


def term_of(expression: Expression) -> Term:
    term = canonical(expression)
    return Term(text_of(term), term, domain_of(term.type))


def order_of(left: Expression, right: Expression) -> tuple[Order, bool]:
    """The order of two terms, and whether they have changed places."""
    before = text_of(canonical(left))
    first, second = sorted((canonical(left), canonical(right)), key=text_of)
    return Order(f"order({text_of(first)}, {text_of(second)})", first, second, _SIGNS), before != text_of(first)


def subject_of(expression: Expression, facts: Facts) -> Subject:
    """An expression as a subject, not taken apart."""
    if is_exact(expression.type):
        return sum_of(polynomials.variable(atom_of(expression, facts)))[0]
    return term_of(expression)


def renamed_subject(subject: Subject, names: Mapping[str, str]) -> tuple[Subject, Fraction]:
    """The subject with inputs called by other names, each by its own; and the factor between it as it was and is.

    Other names sort otherwise, so the orientation may turn: then the factor is negative.
    """
    if isinstance(subject, Sum):
        terms = {atom: canonical(with_sources(atom.expression, names)) for atom in subject.polynomial.atoms}
        atoms = {atom: polynomials.Atom(text_of(term), term, atom.domain) for atom, term in terms.items()}
        return sum_of(polynomials.with_atoms(subject.polynomial, atoms))
    if isinstance(subject, Order):
        order, is_turned = order_of(with_sources(subject.left, names), with_sources(subject.right, names))
        return order, Fraction(-1 if is_turned else 1)
    return term_of(with_sources(subject.expression, names)), Fraction(1)

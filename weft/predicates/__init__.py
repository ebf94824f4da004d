"""Conditions in one canonical form, and what follows from what.

A WHERE becomes a **predicate set**, a set of **disjunctions** of **literals**, such that conditions that mean the same
have the same text as often as can be, and a condition that another one implies is found. From the bottom up:

    domains.py         sets of values between cuts; the values of each type, and what is known of clocks
    terms.py           expressions that are not taken apart
    subjects.py        sums and products of terms with exact rational coefficients; the left sides of comparisons
    literals.py        canonical triples: subject, operator, constant; and back to expressions
    comparisons.py     one comparison as literals: expressions as polynomials, where that keeps every answer
    clauses.py         disjunctions and predicate sets: canonical forms, and which implies which, two at a time
    normal_forms.py    conditions as predicate sets, with a guard on their size; predicate sets as boxes
    inference.py       what follows from what, looking at all disjunctions at once; selections from joins
    operations.py      residuals of sets, and what sets have in common; other names, and standard names, of inputs
    closest.py         of very many sets, those that a new one implies most closely
    row_matching.py    which of many predicate sets hold for each row of a table

The meaning is SQL's: a row passes if the condition is TRUE; NULL does not pass. NaN is equal to itself and above all
numbers. Every rewriting keeps exactly the rows that pass, overflow and rounding included; what cannot be rewritten like
that stays as it is written. Everything here is frozen data and functions, but for the index in `closest`.
"""

"""Frozen values as JSON, and back, exactly.

A value is written as a table of rows, children first; the last row is the value itself. A row is a class name followed
by the fields in order, and `[n]` refers to the value of row n. `price > 1.5` becomes

    [["Kind","DOUBLE"], ["DataType",[0]],
     ["Column","trades","price",[1]], ["Literal",1.5,[1]], ["tuple",[2],[3]],
     ["Kind","BOOLEAN"], ["DataType",[5]],
     ["Call","gt",[4],[6]]]

Equal parts are written once, so equal values have equal texts, which are a canonical form; rows are read back in a
loop, however deep an expression is. `docs/adr/0003-own-codec-for-queries.md` says why msgspec does not do.

Parts that the reader already has need not be written at all: `given` names them, and a row `["given","trades"]`
refers to one. Ten thousand queries over a stream of a hundred columns then share one copy of it, on disk and in memory.

There is no code per class: what may be written and read is what is in the registry, which holds the algebra and
whatever else is passed to `register`. Trailing fields that have their default are left out, so a class may gain fields
at its end, with defaults, and still read what was written before. Any other change to a registered class (its name,
the order of its fields, a default) changes the meaning of stored data and needs a migration.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import isfinite
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

from weft.algebra import expressions, relations, types
from weft.algebra.secrets import WeftError


class CodecError(WeftError):
    """Stored data that does not spell a value: damaged, or naming a class that is not registered."""


#: What `encode` makes: a plain value, or a table of rows.
Json: TypeAlias = bool | int | float | str | list[list[Any]] | None

#: The last version of `marshal` that writes the same bytes for the same values. They are the quickest key of a row that
#: tells 1 from True and 0.0 from -0.0; they are never stored.
_WITHOUT_REFERENCES = 2

_NOTHING_GIVEN: Mapping[int, str] = MappingProxyType({})

#: Values that JSON spells exactly and tells apart. Finite floats are the others.
_PLAIN = frozenset({str, int, bool, type(None)})

#: Values that are spelled as one string.
_SPELLINGS: dict[type, Callable[[Any], str]] = {
    float: repr,
    Decimal: str,
    date: date.isoformat,
    bytes: bytes.hex,
    Fraction: str,
}

#: For each registered dataclass: how to get its fields, and the defaults of the last ones.
_FIELDS: dict[type, tuple[Callable[[Any], tuple[Any, ...]], tuple[Any, ...]]] = {}

#: For each tag that a row may begin with: from the items of the row to the value.
_BUILDERS: dict[str, Callable[..., Any]] = {
    "tuple": lambda *items: items,
    "float": float,
    "Decimal": Decimal,
    "date": date.fromisoformat,
    "bytes": bytes.fromhex,
    "Fraction": Fraction,
    "frozenset": lambda *items: frozenset(items),
    "dict": lambda *items: dict(items),
}

_CLASSES: dict[str, type] = {}

#: A table is flat, so there is no circle to look for.
_WRITER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


def register(*classes: type) -> None:
    """Let values of these frozen dataclasses and enums be encoded and decoded."""
    for cls in classes:
        tag = cls.__name__
        if _CLASSES.get(tag) is cls:
            continue
        if tag in _BUILDERS or tag == "given":
            raise TypeError(f"another {tag} is registered: stored values could not tell them apart")
        if issubclass(cls, Enum):
            _BUILDERS[tag] = dict(cls.__members__).__getitem__
        elif is_dataclass(cls) and all(field.init and not field.kw_only for field in fields(cls)):
            _FIELDS[cls] = (_getter([field.name for field in fields(cls)]), _trailing_defaults(cls))
            _BUILDERS[tag] = cls
        else:
            raise TypeError(f"{tag} is neither an enum nor a dataclass whose fields are all positional")
        _CLASSES[tag] = cls


def register_spelling(cls: type, spell: Callable[[Any], str], read: Callable[[str], Any]) -> None:
    """Let values of a class be written as one string, and read back."""
    _SPELLINGS[cls], _BUILDERS[cls.__name__] = spell, read


def encode(value: object, given: Mapping[int, str] = _NOTHING_GIVEN) -> Json:
    """The JSON that spells `value`: itself if JSON can spell it, otherwise a table of rows.

    `given` has the names of the parts, by identity, that the decoder will be given. TypeError if some part is of a
    type that is not registered.
    """
    if _is_plain(value):
        return value  # type: ignore[return-value]
    table: list[list[Any]] = []
    number_of: dict[bytes, int] = {}  # what a row says → its number: equal parts are written once
    reference_to: dict[int, list[int]] = {}  # the identity of a part that is written → the reference to its row
    #: Parts that are made for writing must not go before the end: another would have the identity.
    alive: list[Iterable[Any]] = []
    tag, items = _tag_and_items(value, given)
    alive.append(items)
    unfinished: list[tuple[Any, Iterator[Any], list[Any]]] = [(value, iter(items), [tag])]
    while unfinished:
        part, remaining, row = unfinished[-1]
        for item in remaining:
            if _is_plain(item):
                row.append(item)
            elif reference := reference_to.get(id(item)):
                row.append(reference)
            else:
                tag, items = _tag_and_items(item, given)
                alive.append(items)
                unfinished.append((item, iter(items), [tag]))
                break
        else:
            number = number_of.setdefault(marshal.dumps(row, _WITHOUT_REFERENCES), len(table))
            if number == len(table):
                table.append(row)
            reference_to[id(part)] = reference = [number]
            unfinished.pop()
            if unfinished:
                unfinished[-1][2].append(reference)
    return table


def decode(data: Json, given: Callable[[str], object] | None = None) -> Any:
    """The value that `data` spells; CodecError if it spells none.

    `given` has, by name, the parts that were left out when it was encoded.
    """
    if not isinstance(data, list):
        if _is_plain(data):
            return data
        raise CodecError(f"a table of rows was expected, not {type(data).__name__}")
    builders = {**_BUILDERS, "given": given} if given else _BUILDERS
    values: list[Any] = []
    try:
        for tag, *items in data:
            values.append(builders[tag](*[values[item[0]] if type(item) is list else item for item in items]))
        return values[-1]
    except KeyError as error:
        raise CodecError(f"row {len(values)} names {error}, which is unknown here") from error
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        raise CodecError(f"row {len(values)} does not spell a value: {error}") from error


def dumps(value: object, given: Mapping[int, str] = _NOTHING_GIVEN) -> str:
    """`value` as compact JSON text; equal values have equal texts."""
    return _WRITER.encode(encode(value, given))


def loads(text: str, given: Callable[[str], object] | None = None) -> Any:
    """The value that `dumps` wrote as `text`."""
    try:
        data = json.loads(text)
    except (RecursionError, TypeError, ValueError) as error:
        raise CodecError(f"this is not JSON: {error}") from error
    return decode(data, given)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return kind in _PLAIN or (kind is float and isfinite(value))


def _tag_and_items(part: Any, given: Mapping[int, str]) -> tuple[str, Iterable[Any]]:
    """The tag of a value that is not plain, and what is inside it."""
    if id(part) in given:
        return "given", (given[id(part)],)
    kind = type(part)
    if kind is tuple:
        return "tuple", part
    if kind is frozenset:
        return "frozenset", sorted(part)
    if kind is dict:
        return "dict", sorted(part.items())
    if kind in _FIELDS:
        get, defaults = _FIELDS[kind]
        return kind.__name__, _without_defaults(get(part), defaults)
    if kind in _SPELLINGS:
        return kind.__name__, (_SPELLINGS[kind](part),)
    if _CLASSES.get(kind.__name__) is kind:
        return kind.__name__, (part.name,)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not registered with the codec: {part!r}")


def _without_defaults(values: tuple[Any, ...], defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    end = len(values)
    for default in reversed(defaults):
        value = values[end - 1]
        if type(value) is not type(default) or value != default:
            break
        end -= 1
    return values[:end]


def _trailing_defaults(cls: type) -> tuple[Any, ...]:
    """The defaults that may be left out. What equals one must be the same value, as 0.0 and -0.0 are not."""
    defaults = [field.default for field in fields(cls)]
    start = len(defaults)
    while start and (type(defaults[start - 1]) in _PLAIN or defaults[start - 1] == ()):
        start -= 1
    return tuple(defaults[start:])


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function from an object to the tuple of its fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


for _module in (types, expressions, relations):
    _own = (each for each in vars(_module).values() if getattr(each, "__module__", None) == _module.__name__)
    register(*(each for each in _own if isinstance(each, type)))

"""What `check` knows of sources: the columns that they have, and the options that are weft's own."""

from __future__ import annotations

from collections.abc import Mapping

from weft.algebra import Field
from weft.algebra.types import Kind
from weft.sql import dialect
from weft.sql.errors import Code, did_you_mean
from weft.sql.scope import refuse

#: The option of a stream that says what becomes of a file that cannot be read as declared.
BAD_FILES = "bad_files"
SET_ASIDE, STOP = "set aside", "stop"

_BYTES = (Kind.STRING, Kind.BINARY)

#: The columns that a source always has, whatever is declared; some can only be read as certain types.
_COLUMNS: Mapping[str, Mapping[str, tuple[Kind, ...]]] = {
    "kafka": {
        "key": _BYTES,
        "value": _BYTES,
        "topic": (),
        "partition": (),
        "offset": (),
        "timestamp": (),
        "timestampType": (),
    },
    "rate": {"timestamp": (), "value": ()},
    "rate-micro-batch": {"timestamp": (), "value": ()},
    "socket": {"value": _BYTES, "timestamp": ()},
}

_ADVICE = {
    "kafka": "read the topic in Python, take value apart with from_json, and hand the DataFrame to loom.stream",
}


def check_source(tree: dialect.StreamNode, fields: list[Field], options: Mapping[str, str]) -> None:
    """Refuse columns that the source of a stream cannot have, and values that its options do not take."""
    node = tree.args["format"]
    source = node.name.lower()
    known = _COLUMNS.get(source)
    if known is not None:
        for column, field in zip(tree.args["columns"], fields, strict=True):
            name = next((each for each in known if each.lower() == field.name.lower()), None)
            if name is None:
                otherwise = _ADVICE.get(source, "declare these columns, or choose another source")
                raise refuse(
                    Code.BAD_STREAM,
                    f"a stream from {source} has no column '{field.name}', only {', '.join(known)}",
                    column.this,
                    did_you_mean(field.name, known, otherwise),
                )
            if known[name] and field.type.kind not in known[name]:
                raise refuse(
                    Code.BAD_STREAM,
                    f"column '{field.name}' of a stream from {source} is text or bytes, and cannot be {field.type}",
                    column.this,
                    "declare it as STRING and cast it in the queries",
                )
    wanted = {name.lower(): value for name, value in options.items()}.get(BAD_FILES)
    if wanted is not None and wanted not in (SET_ASIDE, STOP):
        raise refuse(
            Code.BAD_SETTING,
            f"{BAD_FILES} cannot be '{wanted}'",
            node,
            f"write {BAD_FILES} '{SET_ASIDE}' or {BAD_FILES} '{STOP}'",
        )

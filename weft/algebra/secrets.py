"""Passwords, tokens and keys, which are stored and used but not shown again.

Everything that shows a setting, an option, an address or the text of a statement shows it through this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

HIDDEN: Final = "***"


class WeftError(Exception):
    """Something cannot be done. The message is a sentence that says what, why, and what to do, and shows no secrets."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shown(message))


#: What the names of secret settings and options contain, and what `name=value` in an address or a message contains.
_SECRET_NAME = re.compile(r"secret|passw|pwd|token|credential|key|jaas", re.IGNORECASE)
_PARAMETER = re.compile(
    r"""(\b[\w.-]*(?:secret|passw|pwd|token|credential|[\w.-]key)[\w.-]*\s*=\s*)("[^"]*"|'[^']*'|[^&;,\s'"]+)""",
    re.IGNORECASE,
)
#: User and password of an address; a password may contain @ and /.
_USER = re.compile(r"""(://)([^\s'"/:@]*:[^\s'"]*|[^\s'"/]*)(@)""")

_QUOTED = r"""'(?:[^'\\]|\\.|'')*(?:'|\Z)|"(?:[^"\\]|\\.|"")*(?:"|\Z)"""
#: What a statement says in OPTIONS (…), and a pair of a name and a value there or in SET.
_OPTIONS = re.compile(rf"\bOPTIONS\s*\((?:[^()'\"]|{_QUOTED})*", re.IGNORECASE)
_PAIR = re.compile(rf"([\w.-]+(?:`\s*)?\s*=?\s*)({_QUOTED}|[^\s,()'\"]+)")
_SET = re.compile(rf"((?:\A|;)\s*SET\s+`?)([\w.-]+)(`?\s*=\s*)({_QUOTED}|[^;]+)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether the value of a setting or an option of this name is a secret."""
    return _SECRET_NAME.search(name) is not None


def shown_value(name: str, value: str) -> str:
    """The value of a setting or an option as it may be shown."""
    return HIDDEN if is_secret(name) else shown(value)


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be shown."""
    return {name: shown_value(name, value) for name, value in options.items()}


def shown(text: str) -> str:
    """An address or a message as it may be shown: without users, passwords and keys."""
    without_users = _USER.sub(rf"\1{HIDDEN}\3", text)
    return _PARAMETER.sub(rf"\1{HIDDEN}", without_users)


def shown_sql(script: str) -> str:
    """SQL as it may be shown. Every character stays at its place, so that carets point to what they mean."""
    script = _SET.sub(lambda m: m[1] + m[2] + m[3] + (_starred(m[4]) if is_secret(m[2]) else m[4]), script)
    script = _OPTIONS.sub(lambda m: _PAIR.sub(_pair, m[0]), script)
    script = _USER.sub(lambda m: m[1] + _starred(m[2]) + m[3], script)
    return _PARAMETER.sub(lambda m: m[1] + _starred(m[2]), script)


def _pair(match: re.Match[str]) -> str:
    return match[1] + (_starred(match[2]) if is_secret(match[1]) else match[2])


def _starred(value: str) -> str:
    """A value of the same length that says nothing; quotes and ends of lines stay."""
    quote = value[0] if value[:1] in ("'", '"') else ""
    inner = value[len(quote) : len(value) - len(quote)] if quote and value.endswith(quote) else value[len(quote) :]
    end = value[len(quote) + len(inner) :]
    return quote + re.sub(r"[^\n]", "*", inner) + end

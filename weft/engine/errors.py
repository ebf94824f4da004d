"""What the engine says when it cannot go on. Nothing that was committed is lost by any of these."""

from __future__ import annotations

from weft.secrets import shown


class EngineError(Exception):
    """The engine cannot start or go on. The message says why and what to do, and shows no secrets."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class SourceError(EngineError):
    """A stream or a table cannot be read. The message says which, why, and what to do."""


class StorageError(EngineError):
    """The state directory cannot be read or written. The message says what to do."""


class SinkError(EngineError):
    """A sink cannot take answers. The message says why, and what to do."""

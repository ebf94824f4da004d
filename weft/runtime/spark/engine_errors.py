"""What the engine says when it cannot go on. Nothing that was committed is lost by any of these."""

from __future__ import annotations

from weft.algebra.secrets import WeftError


class EngineError(WeftError):
    """The engine cannot start or go on."""


class SourceError(EngineError):
    """A stream or a table cannot be read. The message says which, why, and what to do."""


class MemoryLimit(EngineError):
    """More memory is needed than `max_state_mb` allows. `needing_most` are the logs of what needs most of it."""

    def __init__(self, message: str, needing_most: tuple[str, ...]) -> None:
        super().__init__(message)
        self.needing_most = needing_most


class StorageError(EngineError):
    """The state directory cannot be read or written. The message says what to do."""


class SinkError(EngineError):
    """A sink cannot take answers. The message says why, and what to do."""

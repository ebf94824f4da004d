"""A project in hand: registering statements, running the queries, reading their answers."""

from weft.loom.loom import Loom, change
from weft.loom.registration import Outcome, Registration

__all__ = ["Loom", "Outcome", "Registration", "change"]

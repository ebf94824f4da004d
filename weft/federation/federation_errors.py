"""What the federation says when it cannot go on."""

from __future__ import annotations

from weft.algebra.secrets import WeftError


class FederationError(WeftError):
    """Something that was asked of the federation cannot be done."""


class TopologyError(FederationError):
    """A description of sites and links cannot be used. The message says where it is wrong, and what to do."""

"""What the federation says when it cannot go on."""

from __future__ import annotations


class FederationError(Exception):
    """Something that was asked of the federation cannot be done. The message says what, why, and what to do."""


class TopologyError(FederationError):
    """A description of sites and links cannot be used. The message says where it is wrong, and what to do."""

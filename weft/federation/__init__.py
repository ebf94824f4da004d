"""Many weft engines that run one another's queries: `distribution` decides, `live` carries out (docs/federation.md)."""

from __future__ import annotations

from weft.algebra.secrets import WeftError


class FederationError(WeftError):
    """Something that was asked of the federation cannot be done."""

"""The canonical form of a relation: one short text that queries bound to the same relation have in common."""

from __future__ import annotations

from hashlib import blake2b


def canonical_form(bound: str) -> str:
    """The digest of a bound form as `codec.dumps` writes it.

    Equal relations have equal texts, so they have equal digests; the rendering itself stays in the bound form, of which
    a digest saves a second copy. Two relations that mean the same but are spelled differently (`a AND b`, `b AND a`;
    another alias) have different digests.
    """
    return blake2b(bound.encode(), digest_size=16).hexdigest()

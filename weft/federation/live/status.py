"""A federation as plain data, for people and machines: who is there, what runs where, how far everybody is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.federation.coordinator import Coordinator
from weft.federation.live.flow_model import Measured
from weft.federation.live.ledger import Ledger
from weft.federation.model.edge_cut import loads


def status_of(
    ledger: Ledger,
    brain: Coordinator | None,
    through: Mapping[str, int],
    measured: Mapping[str, Measured],
    states: Mapping[str, str],
) -> dict[str, Any]:
    """What there is to tell of a federation. `states` says of each site whether it runs."""
    load = {}
    if brain is not None and len(brain.queries):
        found = loads(brain.queries, brain.placement, len(brain.network.providers))
        load = dict(zip(brain.network.providers, found.tolist(), strict=True))
    standing = None if brain is None else brain.standing()
    return {
        "place": ledger.place,
        "coordinators": [] if brain is None else list(brain.coordinators()),
        "edge_cut": None if standing is None else standing.edge_cut,
        "fullest": None if standing is None else standing.fullest,
        "sites": [
            {
                "name": site,
                "state": states[site],
                "queries": len(ledger.run_by(site)),
                "load": load.get(site, 0.0),
                "through": through.get(site, 0),
            }
            for site in ledger.members
        ],
        "streams": [
            {
                "name": name,
                "owner": record.owner,
                "batches": len(record.marks),
                "clock": record.marks[-1].clock if record.marks else None,
                "rate": measured[name].rate if name in measured else None,
            }
            for name, record in ledger.streams.items()
            if not record.is_dropped
        ],
        "queries": [
            {"name": each.name, "home": each.home, "provider": each.provider, "since": each.stays[-1].after}
            for each in ledger.running()
        ],
    }

"""Which masters of Spark can run weft, found out before Java starts: Spark itself needs a minute to give one up."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from weft.runtime.failures.errors import EngineError

_KINDS = ("local", "local[", "local-cluster[", "spark://", "yarn", "k8s://")

#: Seconds that a master has to answer.
_PATIENCE = 5


def check_master(master: str, settings: Mapping[str, str]) -> None:
    """Refuse a master that weft cannot run on, or that does not answer."""
    if master.startswith("sc://") or "spark.remote" in settings or "SPARK_REMOTE" in os.environ:
        raise EngineError(
            "weft does not run on Spark Connect (sc://, spark.remote, SPARK_REMOTE): it needs Spark's driver "
            "in its own process; give a master such as local[*], spark://host:7077, yarn or k8s://…"
        )
    if not any(master == kind or (kind[-1] in "[/" and master.startswith(kind)) for kind in _KINDS):
        raise EngineError(f"'{master}' is no master of Spark; write local[*], spark://host:7077, yarn or k8s://…")
    if master.startswith("spark://") and not any(_answers(each) for each in master[len("spark://") :].split(",")):
        raise EngineError(f"no master of Spark answers at {master}; check the address, and that the master runs")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, ValueError):
        return False
    return True

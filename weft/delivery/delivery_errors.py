"""What delivery says when it cannot go on. Nothing that was committed is lost by any of these."""

from __future__ import annotations

from weft.algebra.secrets import WeftError


class DeliveryError(WeftError):
    """Rows cannot be published or taken."""


class LogError(DeliveryError):
    """The delivery log cannot be written or read. The message says which file, why, and what to do."""


class DamagedLog(LogError):
    """A file of the delivery log is damaged or missing. The message says which, and what to do."""


class BrokerError(DeliveryError):
    """The broker cannot be reached, or does not take what it is given."""


class AccessDenied(DeliveryError):
    """The token does not allow what was asked for."""


class UnknownQuery(DeliveryError):
    """No query of that name delivers its answers here."""


def retry_pause(failures: int) -> float:
    """The seconds to wait before a broker or an edge is asked again that has failed some times in a row."""
    return float(min(0.05 * 2 ** min(failures, 10), 2.0))

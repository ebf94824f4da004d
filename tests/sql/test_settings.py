"""Settings of a project: their defaults, and what their texts mean."""

from __future__ import annotations

import pytest

from weft.sql.settings import SETTINGS, Settings, is_amount

_MINUTE = 60_000_000


def test_a_project_that_sets_nothing_has_the_documented_defaults() -> None:
    settings = Settings({})
    assert settings.sharing
    assert settings.heartbeat is None
    assert settings.max_ahead == 24 * 60 * _MINUTE
    assert not settings.keeps_late_rows
    assert settings.max_results == 100_000
    assert settings.error_retention == 1024 << 20
    assert settings.max_state == 4096 << 20
    assert settings.max_driver_partials == 20_000_000
    assert settings.kernels == "auto"
    assert settings.delivery_delay == 0
    assert settings.delivery_every == 5 * _MINUTE
    assert settings.max_delivery == 256 << 20
    assert settings.broker is None


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("30 seconds", 30_000_000), ("1 minute", _MINUTE), ("90", 90_000_000), ("off", None)],
)
def test_a_length_of_time_has_a_unit_or_is_in_seconds(text: str, microseconds: int | None) -> None:
    assert Settings({"heartbeat": text}).heartbeat == microseconds


def test_what_is_set_is_read_whatever_its_type() -> None:
    settings = Settings({"max_results": "50", "max_state_mb": 7, "sharing": "off", "late_rows": "dead letter"})
    assert (settings.max_results, settings.max_state, settings.sharing) == (50, 7 << 20, False)
    assert settings.keeps_late_rows
    assert Settings({"broker": "nats://host:4222"}).broker == "nats://host:4222"


def test_every_default_is_a_value_that_set_takes() -> None:
    for setting in SETTINGS.values():
        if setting.choices is None:
            assert is_amount(setting.default)
        elif setting.choices:
            assert setting.default in setting.choices

"""Runs this half of the benchmark alone."""

from __future__ import annotations

from bench import report
from bench.delivery_transport import DEFINITIONS, measure


def main() -> None:
    quick = report.quick_from_arguments("Delivery over a real broker: 1,000 members behind four edges on NATS.")
    measured = measure(quick)
    report.table("Delivery over NATS", ("figure", "value"), [*measured.ratios.items(), *measured.details.items()])
    report.finish("delivery_transport", measured.ratios, {**measured.details, "definitions": DEFINITIONS}, quick)


if __name__ == "__main__":
    main()

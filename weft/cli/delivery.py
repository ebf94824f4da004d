"""What the commands of delivery share: where answers come from, and how what is wrong with that is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from weft.catalog import CATALOG_FILE
from weft.cli.output import SITE_FILE, Failure, failing_clearly

TokenOption = Annotated[
    str | None, typer.Option("--token", envvar="WEFT_TOKEN", help="What allows you to take the answers.")
]


def delivery_of(project: Path) -> Path:
    """The delivery directory of a project, or of a federation's site. Raises Failure if there is none."""
    from weft.delivery.log import delivery_directory

    if not (project / CATALOG_FILE).exists() and not (project / SITE_FILE).exists():
        raise Failure(f"there is no project in {project}; create one with: weft init {project}")
    return delivery_directory(project)


@contextmanager
def delivering_clearly(as_json: bool) -> Iterator[None]:
    """Turns failures of delivery, too, into one sentence."""
    from weft.delivery import DeliveryError

    with failing_clearly(as_json):
        try:
            yield
        except DeliveryError as error:
            raise Failure(str(error)) from error

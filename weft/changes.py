"""Changes to a project from any process, also while another one runs it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from weft.catalog import Catalog, CatalogError, CatalogLocked, find_writer
from weft.loom import Loom
from weft.registration import Registration

#: Seconds within which a running process answers, unless it hangs.
_LIMIT: Final = 60.0

#: Seconds between two looks for the answer.
_PAUSE: Final = 0.03


def change(directory: Path, script: str, limit: float = _LIMIT) -> Registration:
    """Carry out a script in the project in `directory`, all of it or nothing.

    If a process runs the project, that process carries it out. If it ends before it has done so, this one does.
    """
    while True:
        try:
            with Loom.open(directory) as loom:
                return loom.register(script)
        except CatalogLocked as locked:
            if not locked.answers:
                raise
            found = _ask(directory, script, locked.holder, limit)
            if found is not None:
                return found


def _ask(directory: Path, script: str, holder: str, limit: float) -> Registration | None:
    """What the process that runs a project answers; None if it has ended and nothing was done.

    Raises CatalogError if it does not answer, or cannot carry out the script.
    """
    with Catalog.open(directory, write=False) as catalog:
        number = catalog.submit(script)
        end = time.monotonic() + limit
        try:
            while (answer := catalog.request(number).answer) is None:
                is_late = time.monotonic() > end
                if (is_late or find_writer(directory) is None) and catalog.withdraw(number):
                    if not is_late:
                        return None
                    raise CatalogError(
                        f"{holder} runs {directory} and did not answer within {limit:.0f} s; nothing was changed; "
                        "repeat, or stop it first"
                    )
                time.sleep(_PAUSE)
        except KeyboardInterrupt:
            catalog.withdraw(number)
            raise
        catalog.forget_request(number)
    found = Registration.from_text(answer)
    if found.failure:
        raise CatalogError(found.failure)
    return found

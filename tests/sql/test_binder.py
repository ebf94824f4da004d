"""What every construct of the language binds to, and what every mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql.given import BINDER, answer
from tests.support.golden import Example, read_golden, rewrite_golden
from weft.sql import Code

FILES = sorted(path for path in BINDER.glob("*.sql") if path.name != "given.sql")
EXAMPLES = [(path, example) for path in FILES for example in read_golden(path)]


@pytest.fixture(scope="module", autouse=True)
def _rewritten(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-golden"):
        for path in FILES:
            rewrite_golden(path, answer)
        pytest.skip("golden files are rewritten; read the diff, then run the tests again")


@pytest.mark.parametrize(
    ("path", "example"), EXAMPLES, ids=[f"{path.stem}:{example.line}" for path, example in EXAMPLES]
)
def test_binding(path: Path, example: Example) -> None:
    assert answer(example.statement) == example.expected


def test_every_error_code_has_an_example() -> None:
    shown = {code for code in Code for _, example in EXAMPLES if f"[{code.value}]: " in example.expected}
    assert set(Code) - shown == set()

"""The page on adaptation shows what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[3] / "docs" / "adaptation.md"


@pytest.mark.parametrize("about", ["weft.federation.ordering", "weft.optimizer.order_joins"])
def test_the_examples_do_what_their_comments_say(about: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    (example,) = [block for block in blocks if about in block]
    exec(compile(example, _PAGE.name, "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", example)

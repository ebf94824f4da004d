"""The report of benchmarks: its paths, its JSON line, the machine's facts, and the account of CPU time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bench import report


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    results = tmp_path / "bench" / "results"
    monkeypatch.setattr(report, "RESULTS", results)
    return results


def test_quick_results_never_replace_full_ones(folder: Path) -> None:
    assert report.results(quick=False) == folder
    assert report.results(quick=True) == folder / "quick"
    assert (folder / "quick").is_dir()


def test_quick_results_are_not_kept_in_git() -> None:
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()
    assert "bench/results/quick/" in ignored


def test_the_last_line_is_one_json_object_of_the_ratios(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.table("a table for people", ["kernel", "ns"], [["Panes", 1234.5], ["DABA", None]], note="a note")
    report.finish("trial", {"share": 1 / 3, "against_cpp": None, "lead": 12345.678}, {}, quick=False)
    lines = capsys.readouterr().out.splitlines()
    assert json.loads(lines[-1]) == {"share": 0.3333, "against_cpp": None, "lead": 12350.0}
    assert any("Panes" in line and "1,234" in line for line in lines[:-1])


def test_the_record_holds_ratios_details_and_machine(folder: Path) -> None:
    details = {"times": np.array([1.5, 2.5]), "count": np.int64(3), "rate": Fraction(1, 4)}
    report.finish("trial", {"share": np.float64(0.5)}, details, quick=True)
    record = json.loads((folder / "quick" / "trial.json").read_text())
    assert record["bench"] == "trial"
    assert record["quick"] is True
    assert record["ratios"] == {"share": 0.5}
    assert record["details"] == {"times": [1.5, 2.5], "count": 3, "rate": 0.25}
    assert record["machine"].keys() == report.machine().keys()


@pytest.mark.parametrize("nothing", [float("nan"), float("inf")])
def test_a_ratio_that_is_no_number_is_refused(folder: Path, nothing: float) -> None:
    with pytest.raises(ValueError):
        report.finish("trial", {"share": nothing}, {}, quick=True)


def test_machine_facts_are_those_of_this_machine() -> None:
    facts = report.machine()
    assert 1 <= facts["cores"] <= (os.cpu_count() or 1)
    assert facts["cpu"]
    assert facts["memory_bytes"] > 1 << 28
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["packages"]["numpy"] == np.__version__
    assert len(facts["load_average"]["before"]) == len(facts["load_average"]["now"]) == 3


def test_machine_facts_name_neither_host_nor_user() -> None:
    text = json.dumps(report.machine())
    assert os.uname().nodename not in re.findall(r"[\w.-]+", text)
    assert str(Path.home()) not in text


_BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"

# Works, has a child of its own work, says when both are done, and lives on until it is told to end.
_BUSY_WITH_CHILD = f"""
import subprocess, sys
{_BUSY}
subprocess.run([sys.executable, "-c", {_BUSY!r}])
print("done", flush=True)
input()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="living descendants are read from /proc")
def test_cpu_seconds_count_descendants_that_live_and_that_ended() -> None:
    before = report.cpu_seconds()
    command = [sys.executable, "-c", _BUSY_WITH_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        living = report.cpu_seconds() - before
        child.communicate("\n")
    ended = report.cpu_seconds() - before
    assert living >= 0.5
    assert ended >= 0.5


def test_the_command_line_knows_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench"])
    assert report.quick_from_arguments("a bench") is False
    monkeypatch.setattr(sys, "argv", ["bench", "--quick"])
    assert report.quick_from_arguments("a bench") is True

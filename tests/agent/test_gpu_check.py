"""`make gpu-check` where there is a card, tried on a simulated one in real time; and where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def check(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vcuda.bench.gpucheck", *words]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def test_a_simulated_card_passes_every_check_and_its_controls() -> None:
    done = check("--simulated", "--seconds", "4")
    lines = done.stdout.splitlines()[1:]
    assert len(lines) == 6, done.stderr
    assert [line for line in lines if not line.startswith("ok")] == []
    assert done.returncode == 0


def test_a_machine_without_a_card_is_told_so_and_is_no_failure() -> None:
    done = check()
    if "Checking the limiting library before the machine's driver" in done.stdout:
        return  # there is a card: then the checks have run
    assert done.returncode == 0
    assert "nothing to check here" in done.stdout

"""What is counted for a minute counts over all processes that answer, where there are several."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apps.api.throttling import LIMIT

PROJECT = Path(__file__).resolve().parents[3]
COUNT = """
import sys, django
django.setup()
from apps.api.throttling import FailedTokens
print([FailedTokens("203.0.113.9").count_one() for _ in range(int(sys.argv[1]))][-1])
"""


def passed(state: Path, processes: int, times: int) -> bool:
    """Whether the limit is passed after so many more wrong tokens, all in a process of their own."""
    settings = {"TESSERA_STATE": str(state), "TESSERA_WEB_PROCESSES": str(processes), "TESSERA_DATABASE_URL": ""}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(times)],
        cwd=PROJECT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip() == "True"


@pytest.mark.parametrize(("processes", "counts"), [(2, True), (1, False)])
def test_wrong_tokens_are_counted_over_several_processes(tmp_path: Path, processes: int, counts: bool) -> None:
    """One process counts for itself: a second one here stands for it after a restart."""
    assert not passed(tmp_path, processes, LIMIT)
    assert passed(tmp_path, processes, 1) is counts

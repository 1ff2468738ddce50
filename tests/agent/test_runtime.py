"""CUDA's runtime in a claim: it resolves the driver's functions in ways of its own, and finds the limits all the same."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import BOUND, GIB, Site
from vcuda.sim.tests.python.harness import HERE, OUT_OF_MEMORY, clients, static_runtime


async def _environment(site: Site) -> dict[str, str]:
    """Of a claim of 8 GiB whose programs run as whoever runs the tests, who can read the clients."""
    agent = await site.agent()
    device = {"uuid": (await agent.card("H100"))["uuid"], "memory": 8 * GIB, "compute": 300, "ceiling": 300}
    body = {"devices": [device], "uid": os.geteuid(), "gid": os.getegid()}
    made = await agent.ask("PUT", "/claims/a", body, expect=201)
    return {**os.environ, **made["env"]}


def _answer(command: list[str | Path], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("release", ["11", "12"])
async def test_a_shared_runtime_sees_the_share_and_is_refused_more(site: Site, release: str) -> None:
    environment = await _environment(site)
    answer = _answer([clients(), HERE / "clients" / "runtime.py", release], environment)
    assert (answer["cards"], answer["total"], answer["refused"]) == (1, 8 * GIB, OUT_OF_MEMORY)


async def test_a_runtime_linked_into_the_program_does_too(site: Site, tmp_path: Path) -> None:
    environment = await _environment(site)
    answer = _answer([static_runtime(tmp_path)], environment)
    assert answer == {"cards": 1, "total": 8 * GIB, "refused": OUT_OF_MEMORY}

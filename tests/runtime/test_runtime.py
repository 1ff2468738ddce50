"""The CUDA runtime's two largest users, unmodified, in a claim of 8 GiB and 300 per mille of a simulated H100."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vcuda.bench.agent import Agent
from vcuda.bench.simnode import SimNode
from vcuda.sim.tests.python.harness import environment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GIB = 1 << 30
SECONDS = 600  # longest that a client may take: it compiles itself to bytecode at first
SHARE = 300  # per mille


@dataclass
class Claim:
    node: SimNode
    python: Path
    variables: dict[str, str]

    def start(self, client: str, *steps: str) -> subprocess.Popen[str]:
        command: list[str | Path] = [self.python, HERE / "clients" / client, *steps]
        return subprocess.Popen(command, env=os.environ | self.variables, stdout=subprocess.PIPE, text=True)

    def run(self, client: str, *steps: str) -> list[dict[str, Any]]:
        with self.start(client, *steps) as process:
            out, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, f"{client} ended with {process.returncode}"
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="session")
def python() -> Path:
    return environment(ROOT / "build" / "runtime-venv", HERE / "requirements.txt")


@pytest.fixture
def claim(python: Path) -> Iterator[Claim]:
    with SimNode(ROOT / "build" / "vcuda", "h100,l40s") as node, Agent(node) as agent:
        variables = agent.claim("a", uuid=node.uuids[0], memory=8 * GIB, compute=SHARE, ceiling=SHARE)
        yield Claim(node, python, variables)


def test_pytorch_sees_its_share_and_meets_its_end_alive(claim: Claim) -> None:
    (seen,) = claim.run("pytorch.py", "memory")
    assert seen["total"] == seen["properties"] == 8 * GIB
    assert 7 * GIB < seen["free"] < 8 * GIB
    assert seen["pieces"] == 7, "what is left of 8 GiB beside the context"
    assert "total capacity of 8.00 GiB" in seen["refusal"]
    assert seen["reserved"] == 7 * GIB
    assert seen["again"] == 2 * GIB
    assert claim.node.peak() <= 8 * GIB


def test_pytorch_moves_bytes_and_launches_what_it_is_made_of(claim: Claim) -> None:
    moved, trained = claim.run("pytorch.py", "bytes", "training")
    assert moved["same"]
    assert trained["allocated"] > 0


def test_two_pytorch_programs_share_the_claim(claim: Claim) -> None:
    with claim.start("pytorch.py", "memory") as one, claim.start("pytorch.py", "memory") as two:
        answers = [json.loads(process.communicate(timeout=SECONDS)[0]) for process in (one, two)]
    assert all("out of memory" in answer["refusal"] for answer in answers)
    assert claim.node.peak() <= 8 * GIB


def test_products_of_matrices_get_the_share_and_no_more(claim: Claim) -> None:
    claim.node.tool(
        "kernel", "*gemm*", str(5_000_000)
    )  # 5 ms each, so that the card and not the launching is what counts
    with claim.start("pytorch.py", "products") as process:
        busy = [claim.node.busy(process.pid)]
        while process.poll() is None:
            time.sleep(1.0)
            busy.append(max(busy[-1], claim.node.busy(process.pid)))
        (done,) = [json.loads(line) for line in process.communicate()[0].splitlines()]
    share = done["number"] * 5e-3 / done["seconds"] * 1000
    assert abs(share - SHARE) <= 30, f"{share:.0f} per mille"
    assert busy[-1] >= done["number"] * 5e6 * 0.8, "the card itself has seen it"


def test_cupy_sees_its_share_and_launches_its_own_kernels(claim: Claim) -> None:
    (seen,) = claim.run("arrays.py")
    assert seen["total"] == 8 * GIB
    assert "Out of memory allocating 8,589,934,592 bytes" in seen["refusal"]
    assert seen["same"]
    assert GIB <= seen["held"] < GIB + GIB // 64, "beside the numbers"
    assert seen["freed"] >= seen["free"] - GIB // 8, "all but its kernels' images"

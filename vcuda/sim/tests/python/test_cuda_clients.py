"""CUDA programs written for hardware run as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from vcuda.sim.tests.python.harness import BUILD, OUT_OF_MEMORY, Node, static_runtime


@pytest.mark.parametrize(("driver", "number"), [("12.4", 12040), ("12.9", 12090), ("13.0", 13000)])
def test_cuda_bindings(make_node: Callable[..., Node], driver: str, number: int) -> None:
    node = make_node("--cards", "l40s", "--driver", driver, "--time", "virtual")
    answer = json.loads(node.script("bindings.py"))
    card = json.loads(node.tool("show", "--json"))["cards"][0]
    assert answer["version"] == number
    assert answer["name"] == card["name"]
    assert answer["total"] == card["capacity_bytes"]
    assert answer["total"] - answer["free"] == 240 << 20
    assert answer["elapsed_ms"] == pytest.approx(30.0, abs=0.01)


def test_cuda_core_compiles_and_launches(node: Node) -> None:
    assert "H100" in node.script("core.py")


# A runtime of a later branch than its driver refuses to start, as on hardware.
@pytest.mark.parametrize(
    ("runtime", "number", "driver"),
    [("11", 11080, "12.9"), ("12", 12090, "12.9"), ("11", 11080, "13.5"), ("12", 12090, "13.5"), ("13", 13050, "13.5")],
)
def test_the_cuda_runtime(make_node: Callable[..., Node], runtime: str, number: int, driver: str) -> None:
    node = make_node("--cards", "l40s", "--driver", driver)
    answer = json.loads(node.script("runtime.py", runtime))
    card = json.loads(node.tool("show", "--json"))["cards"][0]
    assert answer["runtime"] == number
    assert answer["cards"] == 1
    assert answer["total"] == card["capacity_bytes"]
    assert answer["refused"] == OUT_OF_MEMORY


def test_the_cuda_runtime_linked_into_a_program(node: Node, tmp_path: Path) -> None:
    answer = json.loads(node.run(str(static_runtime(tmp_path))))
    assert answer["cards"] == 2
    assert answer["refused"] == OUT_OF_MEMORY


def test_numba_compiles_and_launches(node: Node) -> None:
    assert "H100" in node.script("numba_kernel.py")


def test_every_call_can_be_logged(node: Node, tmp_path_factory: pytest.TempPathFactory) -> None:
    log = tmp_path_factory.mktemp("log") / "calls"
    node.script("bindings.py", TESSERA_SIM_LOG=str(log))
    lines = log.read_text().splitlines()
    assert lines[0].startswith("cu")
    assert any(line.startswith("cuMemAlloc_v2 2 0x") for line in lines), (
        "the refused one, and where its answer would have gone"
    )
    assert any(line.startswith("cuLaunchKernel 0 0x") for line in lines)


def test_visible_devices_are_honoured(node: Node) -> None:
    assert json.loads(node.script("bindings.py", CUDA_VISIBLE_DEVICES="1"))["name"] == "NVIDIA L40S"


def test_a_node_beside_the_library_needs_no_environment(node: Node, tmp_path: Path) -> None:
    """As in the folder of a claim: links to the driver, and the node under its fixed name."""
    (tmp_path / "libcuda.so.1").symlink_to(BUILD / "libcuda.so.1")
    (tmp_path / "tessera-sim.node").symlink_to(node.path)
    answer = json.loads(node.script("bindings.py", TESSERA_SIM_NODE="", LD_LIBRARY_PATH=str(tmp_path)))
    assert answer["name"] == "NVIDIA H100 80GB HBM3"

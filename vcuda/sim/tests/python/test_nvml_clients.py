"""Monitoring programs see the cards, the processes and what they use."""

from __future__ import annotations

import json
import subprocess

from vcuda.sim.tests.python.harness import Node


def test_gpustat_shows_memory_load_and_process(node: Node, held: subprocess.Popen[str]) -> None:
    first, second = json.loads(node.run("gpustat", "--json"))["gpus"]
    assert first["name"] == "NVIDIA H100 80GB HBM3"
    assert first["memory.total"] == 81559
    assert first["memory.used"] == 8192 + 256 + 2, "memory, context, and a page for the module"
    assert first["utilization.gpu"] > 0
    assert [(p["pid"], p["gpu_memory_usage"]) for p in first["processes"]] == [(held.pid, 8192 + 256 + 2)]
    assert second["memory.used"] == 0
    assert second["processes"] == []


def test_nvitop_shows_both_cards_and_the_process(node: Node, held: subprocess.Popen[str]) -> None:
    page = node.run("nvitop", "--once", "--ascii")
    assert "H100 80GB HBM3" in page
    assert "L40S" in page
    assert str(held.pid) in page
    assert "8450MiB" in page


def test_nvidia_ml_py_agrees_with_the_node(node: Node, held: subprocess.Popen[str]) -> None:
    answer = json.loads(node.script("ml.py"))
    card = json.loads(node.tool("show", "--json"))["cards"][0]
    assert answer["uuid"] == card["uuid"]
    assert answer["total"] == card["memory_bytes"]
    assert answer["used"] == card["used_bytes"] + card["reserve_bytes"]
    assert answer["processes"] == [[held.pid, card["used_bytes"]]]
    assert answer["samples"]
    assert {pid for pid, _ in answer["samples"]} == {held.pid}
    assert all(0 < busy <= 100 for _, busy in answer["samples"])


def test_a_killed_process_is_gone_from_the_list(node: Node, held: subprocess.Popen[str]) -> None:
    second = subprocess.Popen(
        [node.python, *held.args[1:]], env=node.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )  # type: ignore[index]
    assert second.stdout
    assert second.stdout.readline() == "ready\n"
    assert len(json.loads(node.script("ml.py"))["processes"]) == 2
    second.kill()
    second.wait()
    assert [pid for pid, _ in json.loads(node.script("ml.py"))["processes"]] == [held.pid]

"""A machine's NVIDIA driver for containers: from `nvidia-ctk`, or from what lies there. No hardware: a tree made by the test."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.node.apiserver import NODE, resource_claim, result
from tests.unit.node.claimed import CARD, SECOND_CARD, facts
from vcuda.node.dra import host
from vcuda.node.dra.allocation import read_allocation
from vcuda.node.dra.cdi import CdiFolder
from vcuda.node.prepare import CUDA, NVML

PLACE = "/usr/lib/x86_64-linux-gnu"
RELEASE = "550.54.15"
CARDS = [replace(facts(), attributes={"minor": 3}), facts(SECOND_CARD, 1)]
READ = ["ro", "nosuid", "nodev", "bind"]


def library(name: str) -> dict[str, Any]:
    return {"hostPath": f"{PLACE}/{name}", "containerPath": f"{PLACE}/{name}", "options": READ}


SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": uuid, "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{index}"}]}}
        for index, uuid in enumerate([CARD, SECOND_CARD])
    ],
    "containerEdits": {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}],
        "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "update-ldcache"]}],
        "mounts": [
            library(f"libcuda.so.{RELEASE}"),
            library(f"libnvidia-ml.so.{RELEASE}"),
            library(f"libnvidia-ptxjitcompiler.so.{RELEASE}"),
            library(f"libcudadebugger.so.{RELEASE}"),
        ],
    },
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root folder of a machine with a driver."""
    folder = tmp_path / "host"
    place = folder / PLACE[1:]
    place.mkdir(parents=True)
    for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
        (place / f"{name}.so.{RELEASE}").write_text(name)
        (place / f"{name}.so.1").symlink_to(f"{name}.so.{RELEASE}")
    (place / "libcuda.so").symlink_to("libcuda.so.1")
    (place / "libz.so.1").write_text("not the driver's")
    (folder / "usr/bin").mkdir()
    (folder / "usr/bin/nvidia-smi").touch()
    (folder / "dev").mkdir()
    return folder


def hidden(root: Path) -> dict[str, Path]:
    return {name: root / PLACE[1:] / name for name in (CUDA, NVML)}


def make_nodes(root: Path, *names: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("making device nodes needs root")
    for name in names:
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def targets(mounts: list[dict[str, Any]]) -> dict[str, str]:
    return {mount["containerPath"]: mount["hostPath"] for mount in mounts}


def test_the_toolkits_specification_is_the_base_and_the_two_libraries_are_taken_out() -> None:
    found = host.from_toolkit(SPEC, CARDS)
    assert found.place == PLACE
    assert found.hidden == {CUDA: f"{PLACE}/libcuda.so.{RELEASE}", NVML: f"{PLACE}/libnvidia-ml.so.{RELEASE}"}
    assert set(targets(found.shared.mounts)) == {
        f"{PLACE}/libnvidia-ptxjitcompiler.so.{RELEASE}",
        f"{PLACE}/libcudadebugger.so.{RELEASE}",
    }
    assert found.shared.env == []
    assert found.shared.hooks == SPEC["containerEdits"]["hooks"]  # type: ignore[index]
    assert found.card(SECOND_CARD).nodes == [{"path": "/dev/nvidia1"}]


def test_a_specification_by_index_will_do_and_one_without_the_card_will_not() -> None:
    by_index = SPEC | {
        "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}, {"name": "1", "containerEdits": {}}]
    }
    assert host.from_toolkit(by_index, CARDS).card(CARD).env == ["A=1"]
    with pytest.raises(KeyError):
        host.from_toolkit(SPEC | {"devices": []}, CARDS)


def test_without_the_toolkit_everything_of_the_release_is_mounted_under_its_names(root: Path) -> None:
    make_nodes(root, "nvidiactl", "nvidia-uvm", "nvidia3")
    found = host.find(root, hidden(root), CARDS)
    jit = f"{PLACE}/libnvidia-ptxjitcompiler.so"
    assert targets(found.shared.mounts) == {
        f"{jit}.1": f"{jit}.{RELEASE}",
        f"{jit}.{RELEASE}": f"{jit}.{RELEASE}",
        "/usr/bin/nvidia-smi": "/usr/bin/nvidia-smi",
    }
    assert found.hidden == {CUDA: f"{PLACE}/libcuda.so.{RELEASE}", NVML: f"{PLACE}/libnvidia-ml.so.{RELEASE}"}
    assert found.shared.nodes == [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}]
    assert found.card(CARD).nodes == [{"path": "/dev/nvidia3"}]
    assert found.card(SECOND_CARD).nodes == []


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the root folder needs root")
def test_the_toolkit_is_run_where_it_lies(root: Path) -> None:
    """A program without libraries stands for it: the machine's root folder has no loader here."""
    text = json.dumps(json.dumps(SPEC))
    check = 'c == 5 && !strcmp(v[1], "cdi") && !strcmp(v[2], "generate") && !strcmp(v[3], "--format=json")'
    source = f"#include <stdio.h>\n#include <string.h>\nint main(int c, char **v) {{ if (!({check})) return 1; return puts({text}) < 0; }}\n"
    (root / "tool.c").write_text(source)
    subprocess.run(["gcc", "-static", "-o", root / "usr/bin/nvidia-ctk", root / "tool.c"], check=True)
    assert host.find(root, hidden(root), CARDS) == host.from_toolkit(SPEC, CARDS)


@pytest.mark.parametrize("content", ["#!/bin/false\n", ""])
def test_a_toolkit_that_does_not_work_is_done_without(root: Path, content: str) -> None:
    (root / "usr/bin/nvidia-ctk").write_text(content)
    (root / "usr/bin/nvidia-ctk").chmod(0o755)
    assert host.find(root, hidden(root), CARDS).place == PLACE


def test_in_a_container_the_limiting_library_stands_before_the_real_driver(tmp_path: Path) -> None:
    cdi = CdiFolder(tmp_path / "cdi", tmp_path / "claims", None, host.from_toolkit(SPEC, CARDS))
    cdi.clear()
    found = resource_claim("u", results=[result(), result("gpu-1", share="s2")])
    cdi.write(read_allocation(found, uid="u", pool=NODE, cards=CARDS, account=(0, 0)), namespace="n", name="c")
    spec = json.loads((tmp_path / "cdi/tessera-u.json").read_text())
    edits = spec["containerEdits"]
    mounts, lib = targets(edits["mounts"]), tmp_path / "claims/u/lib"
    for place in (PLACE, "/usr/local/tessera/lib"):
        assert mounts[f"{place}/driver/{CUDA}"] == f"{PLACE}/libcuda.so.{RELEASE}"
        assert mounts[f"{place}/driver/{NVML}"] == f"{PLACE}/libnvidia-ml.so.{RELEASE}"
    assert mounts[f"{PLACE}/{CUDA}"] == str(lib / CUDA)
    assert mounts["/usr/local/tessera/lib"] == str(lib)
    assert f"{PLACE}/libcuda.so.{RELEASE}" not in mounts, "nobody meets the driver by its release's name"
    assert edits["hooks"]
    assert [device["containerEdits"]["deviceNodes"] for device in spec["devices"]] == [
        [{"path": "/dev/nvidia0"}],
        [{"path": "/dev/nvidia1"}],
    ]

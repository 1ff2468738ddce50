"""The kubelet's interfaces in Python are what their definitions give."""

from __future__ import annotations

from pathlib import Path

from vcuda.node.proto import dra_v1_pb2, health_v1alpha1_pb2, registration_v1_pb2
from vcuda.node.proto.generate import HERE, generate


def test_the_generated_files_are_current(tmp_path: Path) -> None:
    made = {path.name: path.read_text() for path in generate(tmp_path)}
    present = {path.name: path.read_text() for pattern in ("*_pb2*.py", "*_pb2*.pyi") for path in HERE.glob(pattern)}
    assert made == present, "run: python -m vcuda.node.proto.generate"


def test_the_services_have_the_names_that_kubelet_calls() -> None:
    found = {
        service.full_name
        for module in (dra_v1_pb2, registration_v1_pb2, health_v1alpha1_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
    }
    assert found == {
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
        "pluginregistration.Registration",
        "v1alpha1.DRAResourceHealth",
    }

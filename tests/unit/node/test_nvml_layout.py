"""NVML's structs as Python sees them, by nvidia-ml-py's own definitions, and as the C library pins them: two sources, one layout."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pynvml
import pytest

SHIM_TESTS = Path(__file__).parents[3] / "vcuda" / "lib" / "tests" / "shim"
MIRRORED = {
    "nvmlMemory_t": "c_nvmlMemory_t",
    "nvmlMemory_v2_t": "c_nvmlMemory_v2_t",
    "nvmlUtilization_t": "c_nvmlUtilization_t",
    "nvmlProcessInfo_v2_t": "c_nvmlProcessInfo_v2_t",
    "nvmlProcessUtilizationSample_t": "c_nvmlProcessUtilizationSample_t",
    "nvmlProcessDetail_v1_t": "c_nvmlProcessDetail_v1_t",
    "nvmlProcessDetailList_t": "c_nvmlProcessDetailList_v1_t",
    "nvmlProcessesUtilizationInfo_t": "c_nvmlProcessesUtilizationInfo_v1_t",
}


@pytest.fixture(scope="module")
def pinned() -> dict[str, tuple[int, dict[str, int]]]:
    """The table of vcuda/lib/tests/shim/test_abi.py."""
    sys.path.insert(0, str(SHIM_TESTS))
    try:
        spec = importlib.util.spec_from_file_location("test_abi", SHIM_TESTS / "test_abi.py")
        assert spec is not None
        assert spec.loader is not None
        module: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SHIM_TESTS))
    table: dict[str, tuple[int, dict[str, int]]] = module.PINNED
    return table


@pytest.mark.parametrize("name", MIRRORED)
def test_both_sides_agree_on_sizes_and_places(pinned: dict[str, tuple[int, dict[str, int]]], name: str) -> None:
    mirror: type[ctypes.Structure] = getattr(pynvml, MIRRORED[name])
    size, fields = pinned[name]
    assert ctypes.sizeof(mirror) == size
    assert [getattr(mirror, field).offset for field in fields] == list(fields.values())

"""NVML through nvidia-ml-py, the library that calls itself `pynvml`. Works on NVIDIA's driver and on the simulated one alike.

Must speak to the hidden driver, not to the limiting library in front of it: the library is loaded by path before
pynvml asks for it by name, and the loader answers a name with what is loaded already.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pynvml

from vcuda.node.errors import Unavailable
from vcuda.node.health import Health
from vcuda.node.nvml import Busy, CardFacts, Gauges, Look, Process
from vcuda.node.prepare import CUDA, NVML

_ARCHITECTURES = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing",
    7: "Ampere", 8: "Ada", 9: "Hopper", 10: "Blackwell",
}  # fmt: skip
_DRIVER_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib/aarch64-linux-gnu", "usr/lib")
log = logging.getLogger(__name__)
_SILENT = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
}
_CORES_64 = {(6, 0), (7, 0), (7, 2), (7, 5), (8, 0)}  # compute capabilities with 64 cores to a multiprocessor, not 128


class NvidiaMl:
    """NVML of the library that `load` loaded."""

    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Unavailable(
                f"The driver does not start: {error}.",
                code="driver_unavailable",
                hint="Check it with `nvidia-smi`, or `tessera-sim show` for a simulated node.",
            ) from None
        self._handles: dict[str, Any] = {}
        self._health: Health | None = None

    def cards(self) -> Sequence[CardFacts]:
        """All cards that answer, in the driver's order. Raises Unavailable when NVML itself does not work."""
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise Unavailable(f"NVML does not count cards: {error}.", code="driver_unavailable") from None
        found = [self._card(index) for index in range(count)]
        self._health = Health(self._handles.values())
        return [card for card in found if card is not None]

    def look(self, uuid: str, *, since_us: int) -> Look:
        handle = self._handles[uuid]
        try:
            rates = _told(pynvml.nvmlDeviceGetUtilizationRates, handle)
            listed = _told(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
            busy = _busy(handle, since_us)
        except pynvml.NVMLError as error:
            return Look(fault=_fault(error))
        return Look(
            percent=None if rates is None else int(rates.gpu),
            processes=None if listed is None else [_process(found) for found in listed],
            busy=busy,
        )

    def gauges(self, uuid: str) -> Gauges:
        handle = self._handles[uuid]
        memory = _ask(_memory, handle)
        power = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        return Gauges(
            memory_used=None if memory is None else int(memory.used),
            temperature=_ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
            power=None if power is None else round(power / 1000),
            illness=self._health.of(uuid, handle) if self._health else "",
        )

    def close(self) -> None:
        _ask(pynvml.nvmlShutdown)

    def _card(self, index: int) -> CardFacts | None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid, memory = pynvml.nvmlDeviceGetUUID(handle), _memory(handle)
        except pynvml.NVMLError:
            return None  # fell off the bus before we came: there is nothing that a claim could name
        self._handles[uuid] = handle
        return CardFacts(
            uuid=uuid,
            index=index,
            model=_ask(pynvml.nvmlDeviceGetName, handle) or "unknown",
            physical_memory=int(memory.total),
            reserved_memory=int(memory.reserved),
            attributes=_attributes(handle),
        )


def load(path: Path | str) -> ctypes.CDLL:
    """Load an NVML library and make sure that it is the one that pynvml will use. OSError when there is none."""
    library = ctypes.CDLL(str(path))
    by_name = ctypes.CDLL(NVML)
    if by_name._handle != library._handle:
        raise Unavailable(
            f"{NVML} is loaded already from another place than {path}.", hint="Start the agent as a process of its own."
        )
    return library


def system_driver(shim: Path, root: Path = Path("/")) -> tuple[ctypes.CDLL, dict[str, Path]] | None:
    """The machine's NVML, and where it and CUDA lie; None where there is no NVIDIA driver.

    `root` is where the machine's own root folder lies for us, who may run in a container that has no driver.
    """
    if root != Path("/"):
        return _driver_below(root)
    try:
        nvml, cuda = load(NVML), ctypes.CDLL(CUDA)
    except OSError:
        return None
    paths = {NVML: _origin(nvml.nvmlInit_v2), CUDA: _origin(cuda.cuInit)}
    if any(path.resolve().parent == shim.resolve() for path in paths.values()):
        raise Unavailable(
            f"{NVML} found by name is the limiting library in {shim}.", hint="Start the agent without LD_LIBRARY_PATH."
        )
    return nvml, paths


def _driver_below(root: Path) -> tuple[ctypes.CDLL, dict[str, Path]] | None:
    for folder in _DRIVER_FOLDERS:
        paths = {name: root / folder / name for name in (NVML, CUDA)}
        if all(path.exists() for path in paths.values()):
            try:
                return load(paths[NVML]), paths
            except OSError as error:
                log.warning("%s cannot be loaded: %s", paths[NVML], error)
    return None


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _origin(function: Any) -> Path:
    """The file from which the loader took a function."""
    info = _DlInfo()
    if not ctypes.CDLL(None).dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info)):
        raise Unavailable("The loader does not say where the NVIDIA driver lies.")
    return Path(os.fsdecode(info.file)).absolute()


def _memory(handle: Any) -> Any:
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)


def _busy(handle: Any, since_us: int) -> list[Busy] | None:
    """NOT_FOUND, or an empty success, is the driver's word for "no window in which anybody was busy"."""
    try:
        samples = _told(pynvml.nvmlDeviceGetProcessUtilization, handle, since_us)
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS):
            return []
        raise
    if samples is None:
        return None
    return [Busy(int(sample.pid), int(sample.smUtil), int(sample.timeStamp)) for sample in samples]


def _attributes(handle: Any) -> dict[str, Any]:
    capability = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    cuda = _ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    pci = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
    power = _ask(pynvml.nvmlDeviceGetPowerManagementLimit, handle)
    wanted = {
        "architecture": _ARCHITECTURES.get(_ask(pynvml.nvmlDeviceGetArchitecture, handle) or 0),
        "compute_capability": capability and f"{capability[0]}.{capability[1]}",
        "multiprocessors": _multiprocessors(handle, capability),
        "driver_version": _ask(pynvml.nvmlSystemGetDriverVersion),
        "cuda_version": cuda and f"{cuda // 1000}.{cuda % 1000 // 10}",
        "pci": pci and pci.busId,
        "numa_node": _ask(pynvml.nvmlDeviceGetNumaNodeId, handle),
        "minor": _ask(pynvml.nvmlDeviceGetMinorNumber, handle),
        "power_limit": power and round(power / 1000),
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _multiprocessors(handle: Any, capability: Any) -> int | None:
    """NVML tells the cores; how many make a multiprocessor is a matter of the architecture (CUDA programming guide)."""
    cores = _ask(pynvml.nvmlDeviceGetNumGpuCores, handle)
    if cores is None or capability is None:
        return None
    return int(cores) // (64 if tuple(capability) in _CORES_64 else 128)


def _process(found: Any) -> Process:
    return Process(int(found.pid), None if found.usedGpuMemory is None else int(found.usedGpuMemory))


def _fault(error: Any) -> str:
    return "gpu_lost" if error.value == pynvml.NVML_ERROR_GPU_IS_LOST else f"nvml_error_{error.value}"


def _told(question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer; None where this card or account is told nothing (MIG, guests). Raises NVMLError for a card in trouble."""
    try:
        return question(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _SILENT:
            return None
        raise


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, or None where the driver has none."""
    try:
        return question(*arguments)
    except pynvml.NVMLError:
        return None

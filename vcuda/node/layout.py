"""The files of a claim as Python objects: the mirror of vcuda/lib/include/vcuda/layout.h, described in vcuda/ABI.md.

The bytes of `config`, `ledger`, `lock` and `log`: creating them, reading them while programs run, and the agent's writes. Each file has
a module of its own; this one makes them together and is what others import. Knows nothing of policies or NVML. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from vcuda.node.config_file import (
    COMPUTE_LIMITED,
    CONFIG_SIZE,
    EXCLUSIVE,
    MEMORY_LIMITED,
    ConfigFile,
    DeviceRecord,
)
from vcuda.node.file_header import MAX_DEVICES
from vcuda.node.ledger_file import (
    CLASSES,
    COST_ENTRIES,
    LEDGER_SIZE,
    OVERHEAD_PAGE,
    LedgerDevice,
    LedgerFile,
    Slot,
    SlotDevice,
)
from vcuda.node.mapped import LayoutError, place
from vcuda.node.recordlock import LockFile

__all__ = [
    "CLASSES",
    "COMPUTE_LIMITED",
    "CONFIG_SIZE",
    "COST_ENTRIES",
    "EXCLUSIVE",
    "LEDGER_SIZE",
    "MAX_DEVICES",
    "MEMORY_LIMITED",
    "OVERHEAD_PAGE",
    "ConfigFile",
    "DeviceRecord",
    "LayoutError",
    "LedgerDevice",
    "LedgerFile",
    "LockFile",
    "Slot",
    "SlotDevice",
    "create_files",
]


def create_files(
    folder: Path, *, tag: bytes, records: Sequence[DeviceRecord], config_mode: int = 0o644, shared_mode: int = 0o600
) -> None:
    """Make the four files of a claim in an existing folder. What is there stays: a repeated call is harmless.

    `shared_mode` is for `ledger`, `lock` and `log`, which the claim's programs write.
    """
    makers: dict[str, Callable[[Path], None]] = {
        "config": lambda path: ConfigFile.create(path, tag=tag, records=records, mode=config_mode).close(),
        "ledger": lambda path: LedgerFile.create(path, tag=tag, mode=shared_mode).close(),
        "lock": lambda path: LockFile.create(path, mode=shared_mode),
        "log": lambda path: place(path, b"", size=0, mode=shared_mode),
    }
    for name, make in makers.items():
        with suppress(FileExistsError):
            make(folder / name)

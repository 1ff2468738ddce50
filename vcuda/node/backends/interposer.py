"""The limiting library in front of the driver, which reads the claim's `config`: memory and compute, on every driver and card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vcuda.node.backends.base import Limits
from vcuda.node.claims import Claim
from vcuda.node.errors import Unavailable
from vcuda.node.layout import ConfigFile, LayoutError
from vcuda.node.prepare import CUDA, NVML


class Interposer:
    name: Final = "interposer"
    shim: Final = True

    def enforce(self, folder: Path, claim: Claim) -> None:
        """`prepare` and `kept` have written `config`: it is the claim's record as well."""

    def read_back(self, folder: Path, claim: Claim) -> Mapping[str, Limits]:  # noqa: ARG002
        """By the file's name, as a program opens it: not through the mapping that wrote it."""
        if not all((folder / "lib" / name).exists() for name in (CUDA, NVML)):
            return {}
        try:
            config = ConfigFile(folder / "config")
        except (OSError, LayoutError) as error:
            raise Unavailable(f"The limits cannot be read back: {error}", code="not_enforced") from None
        try:
            return {
                record.uuid: Limits(
                    memory=record.memory_limit, compute=record.guarantee, ceiling=max(record.ceiling, record.guarantee)
                )
                for record in config.records()
            }
        except LayoutError as error:
            raise Unavailable(f"The limits cannot be read back: {error}", code="not_enforced") from None
        finally:
            config.close()

    def release(self, claim: Claim) -> None:
        """The limits go with the claim's folder."""

"""Whole cards: nobody shares them, so nothing stands between program and driver, and nothing is metered.

Only where nothing but the claim's own cards can be reached, or an operator says so: without the library, `CUDA_VISIBLE_DEVICES` is a wish.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vcuda.node.backends.base import Limits
from vcuda.node.claims import Claim
from vcuda.node.prepare import CUDA, NVML


class Exclusive:
    name: Final = "exclusive"
    shim: Final = False

    def enforce(self, folder: Path, claim: Claim) -> None:
        """A whole card is kept by not promising it to others (`claims.check_room`)."""

    def read_back(self, folder: Path, claim: Claim) -> Mapping[str, Limits]:
        """That programs meet the driver itself: its two files, and no way to a claim's limits beside them."""
        lib = folder / "lib"
        direct = all((lib / name).exists() for name in (CUDA, NVML)) and not (lib / "claim").is_symlink()
        whole = {part.uuid: Limits(compute=1000, ceiling=1000) for part in claim.parts if part.exclusive}
        return whole if direct else {}

    def release(self, claim: Claim) -> None:
        """There is nothing."""

"""What the files of a claim have in common: versions, sizes, the check of their first bytes."""

from __future__ import annotations

from typing import Final

from vcuda.node.mapped import Copied, LayoutError, Words

VERSION: Final = 1
OLDEST: Final = 1

MAX_DEVICES: Final = 16
TAG_BYTES: Final = 16


def check_header(file: Words | Copied, *, magic: int, size: int) -> None:
    found = file.get("Q", 0)
    version, oldest_reader = file.get("I", 8), file.get("I", 12)
    if found != magic:
        raise LayoutError(f"{file.path} does not begin like a claim file (found {found:#x}). Prepare the claim again.")
    if version < OLDEST or oldest_reader > VERSION:
        raise LayoutError(
            f"{file.path} has layout version {version}; this agent understands {OLDEST} to {VERSION}. "
            "Restart the programs of the claim with a library of this release."
        )
    if file.size < size:
        raise LayoutError(f"{file.path} is {file.size} bytes long, its layout needs {size}. Prepare the claim again.")


def checked_tag(tag: bytes) -> bytes:
    if len(tag) != TAG_BYTES:
        raise ValueError(f"a claim's tag has {TAG_BYTES} bytes, not {len(tag)}")
    return tag

"""What is asked of a GPU, in integers only: bytes and per mille. Owns no storage and no policy."""

from dataclasses import dataclass

MIB = 1024**2
GIB = 1024**3
WHOLE = 1000  # per mille of one card's compute


@dataclass(frozen=True, slots=True)
class GpuShare:
    """`count` cards, and on each of them `memory` bytes and `compute` ‰ guaranteed, up to `ceiling` ‰ while others are idle.

    A share of 1000 ‰ is a whole card: it is exclusive and has all of the card's memory.
    """

    count: int
    memory: int
    compute: int
    ceiling: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a GPU share has at least one card, not {self.count}")
        if self.memory < MIB:
            raise ValueError(f"a GPU share has at least 1 MiB of memory, not {self.memory} bytes")
        if not 1 <= self.compute <= WHOLE:
            raise ValueError(f"guaranteed compute is 1 to 1000 ‰ of a card, not {self.compute}")
        if not self.compute <= self.ceiling <= WHOLE:
            raise ValueError(
                f"the ceiling lies between the guarantee ({self.compute} ‰) and 1000 ‰, not at {self.ceiling}"
            )

    @property
    def exclusive(self) -> bool:
        return self.compute == WHOLE

    @property
    def total_memory(self) -> int:
        """Bytes over all cards; what the quota is charged."""
        return self.count * self.memory

    @property
    def total_compute(self) -> int:
        """Per mille of a card over all cards; what the quota is charged."""
        return self.count * self.compute


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything one workload takes: GPU share (None: no GPU), CPU in thousandths of a core, RAM in bytes."""

    gpu: GpuShare | None
    cpu_milli: int
    ram: int


def cut_share(share: GpuShare, memory: int, compute: int) -> GpuShare | None:
    """`share` reduced to at most `memory` bytes and `compute` ‰ over all its cards: fewer cards only where one would get nothing."""
    for count in range(share.count, 0, -1):
        each_memory = min(share.memory, memory // count // MIB * MIB)
        each_compute = min(share.compute, compute // count)
        if each_memory >= MIB and each_compute >= 1:
            return GpuShare(count, each_memory, each_compute, max(share.ceiling, each_compute))
    return None

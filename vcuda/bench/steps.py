"""How soon is a share right again after something changed? In virtual time; the card is looked at every 50 ms.

A step is over at the moment after which every window that begins later stays within 5 points of what is allowed: windows of 250 ms, and of 1 s
and one kernel for kernels above 5 ms, where a window must hold whole kernels (vcuda/README.md, Bars).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from vcuda.bench.figure import Figure
from vcuda.bench.limiters import Limiter, Off, Ours
from vcuda.bench.scene import Act, Tenant, record
from vcuda.bench.windows import Series, most_above, settled_after

AT: Final = 5.0  # seconds: when something changes
AFTER: Final = 5.0  # seconds that are looked at after it
WITHIN: Final = 5.0  # points
KERNELS: Final = (100_000, 1_000_000, 5_000_000, 50_000_000)  # ns
LIMITS: Final = (10, 30, 50)  # per cent


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens to a claim, "own". `after` is the kernel's length behind the step, `target` its share then, per cent."""

    name: str
    text: str
    tenants: Callable[[int, int], Sequence[Tenant]]  # kernel in ns, limit in per cent
    acts: Callable[[int, int], Sequence[Act]] = lambda _kernel, _limit: ()
    target: Callable[[int], float] = float
    longer: int = 1
    bar: float = 0.5  # seconds
    kernels: Sequence[int] = KERNELS
    limits: Sequence[int] = LIMITS

    def seconds(self, build: Path, kernel: int, limit: int, limiter: Limiter) -> float:
        series = record(build, self.tenants(kernel, limit), AT + AFTER, acts=self.acts(kernel, limit), limiter=limiter)[
            "own"
        ]
        return self.settled(series, kernel * self.longer, limit)

    def settled(self, series: Series, kernel: int, limit: int) -> float:
        window = 0.25 if kernel <= 5_000_000 else 1 + round(kernel / 5e7) * 0.05
        within = max(WITHIN, 1.1 * kernel / 1e9 / window * 100)
        return settled_after(series, window=window, begin=AT, target=self.target(limit), within=within)


def own(kernel: int, limit: int, **more: object) -> Tenant:
    return Tenant(name="own", kernels=str(kernel), share=limit * 10, **more)  # type: ignore[arg-type]


def neighbour(**more: object) -> Tenant:
    return Tenant(name="neighbour", kernels="1000000", **more)  # type: ignore[arg-type]


STEPS: Final = (
    Step(
        name="arrives",
        text="an unlimited neighbour arrives",
        tenants=lambda kernel, limit: [own(kernel, limit), neighbour(begin=AT)],
        limits=(10, 30),
    ),
    Step(
        name="leaves",
        text="an unlimited neighbour leaves",
        tenants=lambda kernel, limit: [own(kernel, limit), neighbour(end=AT)],
        limits=(10, 30),
    ),
    Step(
        name="limit",
        text="the limit changes from 90 %, alone",
        tenants=lambda kernel, _limit: [own(kernel, 90)],
        acts=lambda _kernel, limit: [Act(at=AT, tenant="own", share=limit * 10)],
    ),
    Step(
        name="limit.beside",
        text="the limit changes from 40 %, beside an unlimited neighbour",
        tenants=lambda kernel, _limit: [own(kernel, 40), neighbour()],
        acts=lambda _kernel, limit: [Act(at=AT, tenant="own", share=limit * 10)],
        limits=(10, 30),
    ),
    Step(
        name="longer",
        text="every kernel becomes 10 x longer, alone",
        tenants=lambda kernel, limit: [own(kernel, limit)],
        acts=lambda kernel, _limit: [Act(at=AT, kernel_ns=10 * kernel)],
        longer=10,
        kernels=KERNELS[:3],
    ),
    Step(
        name="longer.beside",
        text="every kernel becomes 10 x longer, beside an unlimited neighbour (bar 0.7 s: vcuda/README.md, Bars)",
        tenants=lambda kernel, limit: [own(kernel, limit), neighbour()],
        acts=lambda kernel, _limit: [Act(at=AT, kernel_ns=10 * kernel)],
        longer=10,
        bar=0.7,
        kernels=KERNELS[:3],
        limits=(10, 30),
    ),
    Step(
        name="start",
        text="a program starts, its kernels unknown, alone",
        tenants=lambda kernel, limit: [
            own(kernel, limit, begin=AT),
            Tenant(name="quiet", kernels="1000", how="sync", share=10, end=0.2),
        ],
    ),
    Step(
        name="lender",
        text="a claim of 60 % comes back while another borrows its time",
        tenants=lambda kernel, limit: [
            Tenant(name="before", claim="own", kernels=str(kernel), share=limit * 10, end=1),
            own(kernel, limit, begin=AT),
            Tenant(name="borrower", kernels="1000000", share=300, ceiling=950),
        ],
        limits=(60,),
        kernels=KERNELS[1:3],
    ),
)


def measure(build: Path) -> Iterator[Figure]:
    """Each step with every kernel at every limit."""
    for step in STEPS:
        yield figure(build, step, Ours(), list(product(step.kernels, step.limits)))
    yield burst(build)


def figure(build: Path, step: Step, limiter: Limiter, cases: Sequence[tuple[int, int]]) -> Figure:
    worst = round(max(step.seconds(build, kernel, limit, limiter) for kernel, limit in cases), 3)
    kernel, limit = cases[0]
    return Figure(
        name=f"vcuda.step.{step.name}",
        value=worst,
        unit="s",
        bar=step.bar,
        control=step.seconds(build, kernel, limit, Off()),
        method=f"{step.text}: until all later windows are within {WITHIN:g} points; worst of {len(cases)}; control: limiter off "
        f"({AFTER:g} s: never)",
    )


def burst(build: Path) -> Figure:
    """Sixteen processes that start at once with unknown kernels: how far they get ahead of their share together."""

    def ahead(limiter: Limiter) -> float:
        tenants = [own(1_000_000, 10, count=16)]
        return most_above(record(build, tenants, 3, limiter=limiter)["own"], begin=0, end=3, target=10)

    return Figure(
        name="vcuda.step.burst",
        value=ahead(Ours()),
        unit="ms",
        bar=100,
        control=ahead(Off()),
        method="16 processes start at once at 10 %, kernels of 1 ms nobody knows: most GPU time above the share; control: limiter off; "
        "bar: the burst of 25 ms, two kernels and 75 ms",
    )

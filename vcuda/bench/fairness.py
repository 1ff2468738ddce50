"""Eight claims of unequal shares and unlike programs on one card: does each get its own?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vcuda.bench.figure import Figure
from vcuda.bench.limiters import Limiter, Off, Ours
from vcuda.bench.scene import Tenant, record
from vcuda.bench.windows import worst_error

SETTLE, LOOK = 4.0, 14.0  # seconds of card time
CLAIMS: Final = (
    Tenant(name="a", share=300, kernels="1000000"),
    Tenant(name="b", share=150, kernels="10000,100000,1000000,20000000"),
    Tenant(name="c", share=100, kernels="100000"),
    Tenant(name="d", share=100, kernels="5000000", how="sync"),
    Tenant(name="e", share=100, kernels="20000000"),
    Tenant(name="f", share=100, kernels="500000", count=2),
    Tenant(name="g", share=50, kernels="2000000", how="sync"),
    Tenant(name="h", share=50, kernels="100000"),
)


def measure(build: Path) -> Iterator[Figure]:
    ours, control = errors(build, Ours()), errors(build, Off())
    shares = "/".join(f"{tenant.share // 10}" for tenant in CLAIMS)
    for index, (window, bar) in enumerate(((10, 2.0), (1, 5.0))):
        yield Figure(
            name=f"vcuda.fairness.{window}s",
            value=ours[index],
            unit="points",
            bar=bar,
            control=control[index],
            method=f"{len(CLAIMS)} claims at {shares} % with kernels of 10 us to 20 ms on one card: worst error of any over {window} s; "
            "control: limiter off",
        )


def errors(build: Path, limiter: Limiter) -> tuple[float, float]:
    series = record(build, CLAIMS, SETTLE + LOOK, limiter=limiter)
    ten, one = (
        max(worst_error(series[tenant.name].shares(window, SETTLE), tenant.share / 10) for tenant in CLAIMS)
        for window in (10, 1)
    )
    return ten, one

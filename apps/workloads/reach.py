"""The last step before "ready": one visit through the gateway. The gateway registers how; without one there is nothing to visit."""

from collections.abc import Awaitable, Callable

Check = Callable[[str], Awaitable[None]]

_check: Check | None = None


def register(check: Check | None) -> Check | None:
    """`check(workload_slug)` returns once the workload answers through the gateway, and raises `core.errors.Unavailable` where it does not.

    Returns the check that it replaces.
    """
    global _check
    before, _check = _check, check
    return before


async def through_gateway(slug: str) -> None:
    if _check is not None:
        await _check(slug)

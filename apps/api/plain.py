"""Domain values as JSON: shares in the names and units of the API, everything else as plain as it can be."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from apps.core.share import GpuShare, Resources


def moment(value: datetime | None) -> str | None:
    """RFC 3339 in UTC with milliseconds."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def share(value: GpuShare | None) -> dict[str, int] | None:
    if value is None:
        return None
    return {
        "count": value.count,
        "memory_bytes": value.memory,
        "compute_permille": value.compute,
        "ceiling_permille": value.ceiling,
    }


def resources(value: Resources) -> dict[str, Any]:
    return {"gpu": share(value.gpu), "cpu_milli": value.cpu_milli, "ram_bytes": value.ram}


def plain(value: Any) -> Any:
    """Anything that evidence may hold, as JSON. Lazy translations become text in the current language."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Resources):
        return resources(value)
    if isinstance(value, GpuShare):
        return share(value)
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)

"""What an API server does with objects: merge what is applied, select by labels and fields."""

import copy
from typing import Any

Manifest = dict[str, Any]


def merged(known: Any, change: Any) -> Any:
    """A merge patch; lists are replaced, which is what apply does to the lists that the driver applies."""
    if not isinstance(known, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    result = dict(known)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(known.get(key), value)
    return result


def selected(thing: Manifest, namespace: str, params: dict[str, str]) -> bool:
    if namespace and thing["metadata"].get("namespace") != namespace:
        return False
    labels = thing["metadata"].get("labels") or {}
    wanted = [part.split("=", 1) for part in params.get("labelSelector", "").split(",") if part]
    if any(labels.get(key) != value for key, value in wanted):
        return False
    fields = [part.split("=", 1) for part in params.get("fieldSelector", "").split(",") if part]
    return all(_field(thing, path) == value for path, value in fields)


def _field(thing: Any, path: str) -> Any:
    for part in path.split("."):
        thing = (thing or {}).get(part)
    return thing

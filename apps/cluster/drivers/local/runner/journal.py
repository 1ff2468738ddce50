"""Files that the runner leaves for the driver: each written whole or not at all."""

import json
import os
from typing import Any


def write(folder: str, name: str, content: Any) -> None:
    """Readable by the owner only; a reader sees the old content or the new, never half of it."""
    path = os.path.join(folder, name)
    draft = f"{path}.{os.getpid()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(draft, path)


def read(folder: str, name: str) -> Any:
    """None where there is no such file, or one that cannot be understood (a machine that lost power, say)."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None

"""Where Tessera keeps what must survive: one folder, owned by the account that runs it. No Django in here; scripts use it too.

As root the experiments run under accounts of their own and must be able to reach their homes, so the folder may not lie below
one that is closed to others (root's home, say). Then a folder below /var/lib serves, named after the checkout.
"""

import hashlib
import os
import secrets
import stat
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def open_to_others(path: Path) -> bool:
    """Whether every account may walk through all parents of `path`."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents if parent.exists())


def state_dir() -> Path:
    """TESSERA_STATE, else `var/` of the checkout, else (root in a closed place) /var/lib/tessera-<hash of the checkout's path>."""
    named = os.environ.get("TESSERA_STATE")
    if named:
        return Path(named).resolve()
    local = PROJECT / "var"
    if os.geteuid() != 0 or open_to_others(local):
        return local
    return Path("/var/lib") / f"tessera-{hashlib.sha256(str(PROJECT).encode()).hexdigest()[:8]}"


def secret(path: Path) -> str:
    """The secret kept in `path`, made on first use, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    with os.fdopen(handle, "w", encoding="ascii") as file:
        value = secrets.token_urlsafe(48)
        file.write(value)
    return value

"""What must be there before the parts can start: folders, tables, the demo, static files, a simulated node where no GPU is."""

import io
import json
import os
import re
import subprocess
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from portal import terminal

_TOOL = settings.BASE_DIR / "build" / "vcuda" / "sim" / "tessera-sim"
_NODES = settings.STATE_DIR / "sim"
_REAL_CARDS = Path("/proc/driver/nvidia/gpus")
_ACCOUNTS = settings.STATE_DIR / "demo-accounts.json"


class NotReady(Exception):
    """Something that must be built first is missing; the message says how."""


def prepare(*, demo: bool) -> None:
    """Safe to repeat; after the first time it only looks."""
    if os.geteuid() == 0:
        settings.STATE_DIR.chmod(0o711)  # nginx and experiments have accounts of their own and walk through
    _close_database()
    waiting = _migrations_to_apply()
    if waiting:
        call_command("migrate", verbosity=0, interactive=False)
        terminal.done(f"database: {waiting} migrations applied")
    if demo and not get_user_model().objects.exists():
        call_command("seed_demo", stdout=io.StringIO())
        terminal.done("demo department, people and quotas made")
    if _older_than(settings.STATIC_ROOT / "staticfiles.json", settings.BASE_DIR / "static"):
        call_command("collectstatic", verbosity=0, interactive=False)
        terminal.done("static files collected")


def _older_than(made: Path, sources: Path) -> bool:
    """Also where it was never made: after an update of the checkout, pages name files that are not collected yet."""
    if not made.exists():
        return True
    return any(file.stat().st_mtime > made.stat().st_mtime for file in sources.rglob("*") if file.is_file())


def _close_database() -> None:
    """Others of this machine may not read it, from the first moment on; SQLite gives its side files the same mode."""
    if "sqlite3" in settings.DATABASES["default"]["ENGINE"]:
        os.close(os.open(settings.DATABASES["default"]["NAME"], os.O_CREAT | os.O_RDWR, 0o600))


def _migrations_to_apply() -> int:
    executor = MigrationExecutor(connection)
    waiting = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    connection.close()
    return waiting


def simulated_node() -> Path | None:
    """The simulated node, made if needed; None where real NVIDIA cards are, or none are wanted."""
    if settings.CLUSTER_DRIVER != "local" or (_REAL_CARDS.is_dir() and any(_REAL_CARDS.iterdir())):
        return None
    if not _TOOL.exists():
        raise NotReady("There is no NVIDIA card, and the simulated driver is not built. Run: make vcuda")
    cards = os.environ.get("TESSERA_SIM_CARDS", "h100,l40s")
    node = _node_file(cards)
    if not node.exists():
        made = subprocess.run([_TOOL, "create", node, "--cards", cards], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise NotReady(f"The simulated node cannot be made: {made.stderr.strip()}")
    terminal.done(f"no NVIDIA card here: {cards} are simulated")
    return node


def _node_file(cards: str) -> Path:
    """One for each start of the machine and list of cards: what ran before a restart of the machine holds nothing any more."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    _NODES.mkdir(exist_ok=True)
    _NODES.chmod(0o755)
    for old in _NODES.iterdir():
        if not old.name.startswith(boot):
            old.unlink()
    return _NODES / f"{boot}-{re.sub(r'[^a-z0-9-]+', '+', cards.lower())}.node"


def welcome() -> str:
    """The last lines of a start: where to go and as whom."""
    lines = ["", f"{terminal.paint('Tessera is running at', 'bold')} {settings.PORTAL_URL}"]
    if _ACCOUNTS.exists():
        from portal.management.commands.seed_demo import WHAT_THEY_ARE

        passwords: dict[str, str] = json.loads(_ACCOUNTS.read_text(encoding="utf-8"))
        lines.append("Sign in as")
        lines += [f"  {name:8} {password:20} {WHAT_THEY_ARE.get(name, '')}" for name, password in passwords.items()]
    return "\n".join([*lines, f"Logs: {settings.STATE_DIR / 'logs'}. Ctrl-C stops everything.", ""])

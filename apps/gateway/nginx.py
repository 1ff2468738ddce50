"""nginx as the gateway's data path: its folder, its configuration from the settings, the command that runs it.

Started as root, all of nginx runs under an account number of its own that owns nothing but this folder; otherwise
under ours.
"""

import os
import re
import resource
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.template.loader import render_to_string

from apps.core.errors import Unavailable
from apps.gateway import pages

ACCOUNT = (
    299_999  # below the first number that the local driver gives to experiments; no entry in the machine's user list
)
RECHECK_SECONDS = 30  # how long an open websocket outlives the right to it, at most
_SOCKET_LIMIT = 107  # bytes of a Unix socket's address
_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*")
# Headers with which proxies usually tell of a request's way or person, and our own. The browser's never reach a workload.
_DROPPED = (
    "Forwarded", "X-Forwarded-By", "X-Forwarded-Server", "X-Forwarded-Scheme", "X-Forwarded-Ssl", "X-Forwarded-Prefix",
    "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Preferred-Username", "X-Forwarded-Access-Token",
    "X-Tessera-Slug", "X-Tessera-Probe", "X-Tessera-Idle", "X-Tessera-Address", "X-Tessera-Target", "X-Tessera-Cookie",
    "X-Tessera-Header",
)  # fmt: skip
_LUA = Path(__file__).with_name("gateway.lua")


@dataclass(frozen=True, slots=True)
class Command:
    """How to run nginx in the foreground; `account` is the user and group number to run it under, None for our own."""

    argv: tuple[str, ...]
    account: int | None


def socket_path(folder: Path) -> Path:
    """Where the authoriser listens: in a folder that only nginx may enter."""
    path = folder / "authoriser.sock"
    if len(os.fsencode(path)) > _SOCKET_LIMIT:
        raise Unavailable(
            f"The path of a socket may have {_SOCKET_LIMIT} bytes, and {path} is longer. "
            "Set TESSERA_STATE to a shorter folder."
        )
    return path


def prepare(folder: Path, *, listen: str, recheck_seconds: float = RECHECK_SECONDS) -> Command:
    """Write everything that nginx needs into `folder`. `listen` is `address:port`."""
    program, modules = _installed()
    account = ACCOUNT if os.geteuid() == 0 else None
    _write(folder, _configuration(folder, listen=listen, modules=modules, recheck_seconds=recheck_seconds))
    if account is not None:
        _give(folder, account)
    configuration = str(folder / "nginx.conf")
    return Command((program, "-e", "stderr", "-p", str(folder), "-c", configuration), account)


def _give(folder: Path, account: int) -> None:
    closed = [parent for parent in folder.parents if not parent.stat().st_mode & stat.S_IXOTH]
    if closed:
        raise Unavailable(
            f"nginx runs under an account of its own and cannot reach {folder}: {closed[-1]} is closed to others. "
            f"Run: chmod o+x {closed[-1]}, or set TESSERA_STATE to another folder."
        )
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account, account, follow_symlinks=False)


def _installed() -> tuple[str, Path]:
    """The program, and the folder of its modules."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        raise Unavailable(
            "nginx is not installed. Run: make setup, or apt-get install nginx-light libnginx-mod-http-lua"
        )
    built = subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"--modules-path=(\S+)", built)
    modules = Path(found.group(1)) if found else Path("/usr/lib/nginx/modules")
    if not (modules / "ngx_http_lua_module.so").exists():
        raise Unavailable(
            f"nginx lacks its Lua module in {modules}. Run: make setup, or apt-get install libnginx-mod-http-lua"
        )
    return program, modules


def _configuration(folder: Path, *, listen: str, modules: Path, recheck_seconds: float) -> str:
    domain = settings.GATEWAY_DOMAIN
    if not _DOMAIN.fullmatch(domain):
        raise Unavailable(
            f"TESSERA_GATEWAY_DOMAIN is {domain!r}; a host name in small letters is needed, such as gpu.example.org"
        )
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    values = {
        "folder": folder,
        "socket": socket_path(folder),
        "modules": modules,
        "listen": listen,
        "domain_pattern": re.escape(domain),
        "scheme": settings.GATEWAY_SCHEME,
        "public_port": settings.GATEWAY_PUBLIC_PORT,
        "recheck_seconds": recheck_seconds,
        "dropped_headers": _DROPPED,
        "workers": min(os.cpu_count() or 1, 8),
        "files": files,
        "connections": files // 2,  # a request holds two: the browser's and the workload's
        "page_policy": pages.POLICY,
    }
    return render_to_string("gateway/nginx.conf", values)


def _write(folder: Path, configuration: str) -> None:
    for part in ("", "temp", "pages"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    (folder / "nginx.conf").write_text(configuration, encoding="utf-8")
    shutil.copyfile(_LUA, folder / "gateway.lua")
    for language, page in pages.down().items():
        (folder / "pages" / f"down.{language}.html").write_text(page, encoding="utf-8")

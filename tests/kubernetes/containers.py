"""Containers of the tests' kubelet: real processes of this machine."""

import asyncio
import base64
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tests.kubernetes.server import ApiServer, Manifest

Address = tuple[str, int]

_INIT = """
listener=$1; shift
[ "$listener" = 3 ] || eval "exec 3<&$listener $listener<&-"
echo $((RANDOM + 300)) > /proc/sys/kernel/ns_last_pid  # numbers that tell one container from another
(exec bash -c 'LISTEN_PID=$BASHPID exec "$@"' - "$@") & child=$!
trap 'kill -TERM $child 2>/dev/null' TERM
while :; do wait $child; code=$?; kill -0 $child 2>/dev/null || exit $code; done
"""


class Container:
    """A process of its own kind of loneliness: in a process namespace, so that its end is the end of all that it began."""

    def __init__(
        self, server: ApiServer, programs: Mapping[str, Path], folder: Path, pod: Manifest, at: Address
    ) -> None:
        """`at` is where its port is, `folder` holds the homes."""
        self._server, self._programs, self._folder, self._pod, self._at = server, programs, folder, pod, at
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._killer: asyncio.TimerHandle | None = None
        self.lines: list[tuple[str, bytes]] = []
        self.ended = False
        self._asked = False

    @property
    def text(self) -> bytes:
        return b"".join(line for _, line in self.lines)

    async def start(self) -> None:
        main = self._pod["spec"]["containers"][0]
        program = self._programs.get(main["command"][0])
        if program is None:
            raise FileNotFoundError(2, "no such program", main["command"][0])
        home = self._home()
        home.mkdir(parents=True, exist_ok=True)
        listener = socket.create_server(self._at)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "unshare",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "bash",
                    "-c",
                    _INIT,
                    "-",
                    str(listener.fileno()),
                ),
                *(sys.executable, str(program), *main["command"][1:]),
                env={"PATH": os.environ["PATH"], **self._environment(main), "HOME": str(home), "LISTEN_FDS": "1"},
                cwd=home,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )
        finally:
            listener.close()
        self._reading = asyncio.create_task(self._read())

    def _home(self) -> Path:
        volumes = {v["name"]: v for v in self._pod["spec"]["volumes"]}
        for mount in self._pod["spec"]["containers"][0]["volumeMounts"]:
            claim = volumes[mount["name"]].get("persistentVolumeClaim")
            if claim and mount["mountPath"] == self._pod["spec"]["containers"][0]["workingDir"]:
                found = self._server.one("persistentvolumeclaims", claim["claimName"])
                return self._folder / str(found["metadata"]["uid"])
        return Path(tempfile.mkdtemp(dir=self._folder))

    def _environment(self, main: Manifest) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in main["envFrom"]:
            secret = self._server.one("secrets", source["secretRef"]["name"])
            found |= {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        return found | {one["name"]: one["value"].replace("$$", "$") for one in main["env"]}

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append((now(nanoseconds=True), line))

    async def wait(self) -> int:
        assert self._process is not None
        assert self._reading is not None
        code = await self._process.wait()
        await self._reading
        self.ended = True
        if self._killer is not None:
            self._killer.cancel()
        return code if code < 128 else 128 - code  # bash's way to tell of a signal

    def stop(self, grace: float) -> None:
        if self.ended:
            return
        loop = asyncio.get_running_loop()
        if self._killer is not None:
            self._killer.cancel()
        self._killer = loop.call_later(grace, self.kill)
        self._ask()

    def _ask(self) -> None:
        """As soon as there is somebody to ask."""
        init = _child_of(self._process.pid) if self._process is not None else None
        if init is None and not self.ended:
            asyncio.get_running_loop().call_later(0.02, self._ask)
        elif init is not None and not self._asked:
            self._asked = True
            with suppress(ProcessLookupError):
                os.kill(init, signal.SIGTERM)

    def kill(self) -> None:
        if self._process is None and not self.ended:
            self._killer = asyncio.get_running_loop().call_later(0.02, self.kill)
        elif self._process is not None and self._process.returncode is None:
            init = _child_of(self._process.pid)
            for pid in (init, self._process.pid) if init else (self._process.pid,):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def log(self, params: dict[str, str]) -> bytes:
        """As the kubelet answers: by whole seconds from `sinceTime` on, with the time before each line where asked."""
        since = params.get("sinceTime", "")[:19]
        lines = [(at, line) for at, line in self.lines if at[:19] >= since]
        stamped = params.get("timestamps") == "true"
        text = b"".join(at.encode() + b" " + line if stamped else line for at, line in lines)
        return text[: int(params["limitBytes"])] if "limitBytes" in params else text


def _child_of(pid: int) -> int | None:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    return None


def now(*, nanoseconds: bool = False) -> str:
    now = datetime.now(UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%S.%f000Z" if nanoseconds else "%Y-%m-%dT%H:%M:%SZ")

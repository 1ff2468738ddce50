"""Life of a runner: hold the lock, take the order, start the program, stay until no process of the run is left, say how it ended.

Talks with the driver by four things: standard output ("locked", "started"), the order on standard input, `stop.json` with SIGTERM,
and `main.json`, `exit.json` in the run's folder. If the driver goes before it has given the order, nothing is started: so an
order exists only while the lock is held, and two runners can never serve one run.
"""

import fcntl
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress

from . import groups, journal, kernel, processes
from .brood import Brood, Children, Strangers
from .confine import become
from .log import Log

KILL_AGAIN = 0.2  # s between rounds of SIGKILL, for what was born in between
LOG_PAUSE = 1.0  # s during which further writes to the log are not looked at


def main(folder: str) -> None:
    lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_EX)  # for as long as this process lives
    tell("locked")
    groups.warm()  # the order is being made meanwhile
    text = sys.stdin.read()
    if text:
        Runner(folder, json.loads(text)).run()


def tell(word: str) -> None:
    with suppress(BrokenPipeError):  # the driver may be gone; the run is not
        os.write(1, word.encode() + b"\n")


class Runner:
    def __init__(self, folder: str, order: dict) -> None:  # type: ignore[type-arg]  # JSON
        self.folder, self.order = folder, order
        self.deadline: float | None = None  # monotonic seconds, when the grace is over
        self.failed: object = None
        self.asked_to_stop = False
        self._wake = self._signals()
        self._log = Log(order["log"])
        self._log_asleep_until = 0.0

    def _signals(self) -> int:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_stop)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return reader

    def _on_stop(self, *_: object) -> None:
        self.asked_to_stop = True

    def run(self) -> None:
        brood = self._begin()
        while brood.any_left():
            if self.asked_to_stop:
                self.asked_to_stop = False
                self._stop(
                    brood, float((journal.read(self.folder, "stop.json") or {}).get("grace", self.order["grace"]))
                )
            if brood.main_gone and self.deadline is None:
                self._stop(brood, self.order["grace"])
            if self.deadline is not None and time.monotonic() >= self.deadline:
                processes.kill_groups(self.order["groups"])
                processes.signal_all(brood.members(), signal.SIGKILL)
            self._wait(brood)
        self._finish(brood)

    def _begin(self) -> Brood:
        if self.order["adopt"]:
            known = self.order["adopt"]
            tell("started")
            return Strangers(known["pid"], known["started"], self.order["marker"], self.order["groups"])
        kernel.adopt_orphans()
        pid = self._start()
        return Children(pid, self.order["groups"])

    def _start(self) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            become(self.order, writer)
        os.close(writer)
        seen = processes.stat(pid)
        journal.write(
            self.folder, "main.json", {"pid": pid, "started": seen[2] if seen else 0, "attempt": self.order["attempt"]}
        )
        with os.fdopen(reader) as pipe:
            trouble = pipe.read()  # ends when the program is in place
        for socket in self.order["sockets"]:  # its own now; here they would swallow connections after its end
            os.close(socket)
        if trouble:
            self.failed = json.loads(trouble)
        else:
            tell("started")
        os.close(1)
        os.open("/dev/null", os.O_WRONLY)
        return pid

    def _stop(self, brood: Brood, grace: float) -> None:
        """Ask all processes to end. Asked again, the shorter time counts."""
        until = time.monotonic() + grace
        self.deadline = until if self.deadline is None else min(until, self.deadline)
        processes.signal_all(brood.members(), signal.SIGTERM)

    def _wait(self, brood: Brood) -> None:
        now = time.monotonic()
        poll = select.poll()
        for fd in (self._wake, *brood.descriptors()):
            poll.register(fd, select.POLLIN)
        asleep = self._log_asleep_until - now
        if self._log.changes >= 0 and asleep <= 0:
            poll.register(self._log.changes, select.POLLIN)
        waits = [asleep] if asleep > 0 else []
        if self.deadline is not None:
            waits.append(max(self.deadline - now, 0) or KILL_AGAIN)
        ready = {fd for fd, _ in poll.poll(min(waits) * 1000 + 1 if waits else None)}
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        if self._log.changes in ready:
            self._log.shorten()
            self._log_asleep_until = time.monotonic() + LOG_PAUSE

    def _finish(self, brood: Brood) -> None:
        status = brood.status
        code = os.waitstatus_to_exitcode(status) if status is not None else None
        report = {
            "attempt": self.order["attempt"],
            "code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "failed": self.failed,
            "out_of_memory_kills": groups.out_of_memory_kills(self.order["groups"]),
            "at": time.time(),
        }
        self._log.shorten()
        journal.write(self.folder, "exit.json", report)
        groups.remove(self.order["groups"])

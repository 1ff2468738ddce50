"""The last steps of the child before it becomes the run's program: everything that it shall not have is taken away."""

import fcntl
import json
import os
import resource
import signal
from typing import NoReturn

from . import groups, kernel

FIRST_SOCKET = 3  # by the convention of LISTEN_FDS
_OUT_OF_THE_WAY = 100  # descriptors are moved up here before the low ones are laid out
_PROCESSES = 4096  # of one account, where accounts are apart: stops a fork bomb short of the machine
_OOM_SCORE = 300  # the machine, short of memory, takes a run before a part of Tessera


def become(order: dict, status: int) -> NoReturn:  # type: ignore[type-arg]  # the order is JSON, checked where it is made
    """Turn into the program of `order`. On failure tell the parent through the pipe `status`, which a success closes."""
    try:
        os.setsid()
        groups.join(order["groups"])
        _oom_score()
        os.umask(0o077)
        status = _descriptors(order["log"], order["sockets"], status)
        _limits(bool(order["uid"]))
        _account(order["uid"], order["gid"])
        kernel.forbid_new_privileges()
        os.chdir(order["cwd"])
        _signals()
        environment = {**order["env"], "LISTEN_PID": str(os.getpid())}
        os.execvpe(order["argv"][0], order["argv"], environment)  # noqa: S606 - a list, never a shell string
    except BaseException as error:
        number = getattr(error, "errno", None)
        missing = isinstance(error, FileNotFoundError)
        os.write(status, json.dumps({"error": str(error), "errno": number, "missing": missing}).encode())
    finally:
        os._exit(127)


def _oom_score() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(_OOM_SCORE))
    except OSError:  # only ever raised, never lowered: an outer limit may forbid it
        return


def _descriptors(log: str, sockets: list[int], status: int) -> int:
    """0 reads nothing, 1 and 2 are the log, the sockets follow, everything else is closed. Returns the moved `status`."""
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open("/dev/null", os.O_RDONLY)
    high = [
        fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for fd in (nothing, output, output, *sockets, status)
    ]
    status = high.pop()
    for target, source in enumerate(high):
        os.dup2(source, target, inheritable=True)
    os.closerange(len(high), status)
    os.closerange(status + 1, os.sysconf("SC_OPEN_MAX"))
    return status


def _limits(apart: bool) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold other people's secrets and fill the home
    if apart:
        resource.setrlimit(resource.RLIMIT_NPROC, (_PROCESSES, _PROCESSES))


def _account(uid: int | None, gid: int | None) -> None:
    if uid is None or gid is None:
        return
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _signals() -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])

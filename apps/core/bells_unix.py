"""Bells between processes of one machine: every listener binds a datagram socket in a folder, a ring goes to all of them.

The kernel keeps only a few datagrams per socket. A sender that finds a socket full leaves a file `<socket>.full` beside it and
tries once more; the listener takes the file as "everything may have changed". Whichever of the two comes first, the listener
wakes: either the second try fits, or the socket is still full and the listener looks for the file after it has emptied it.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

MAX_DATAGRAM = 8192  # bytes; a longer list of topics is sent as "*"
_ALL = frozenset({"*"})


@contextmanager
def _opened(folder: Path) -> Iterator[str]:
    """A short name for the folder: addresses of sockets end at 107 bytes, folders may be longer."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def send(folder: Path, topics: frozenset[str]) -> None:
    message = " ".join(sorted(topics)).encode()
    if len(message) > MAX_DATAGRAM:
        message = b"*"
    try:
        with (
            _opened(folder) as short,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender,
        ):
            for entry in os.scandir(short):
                if entry.name.endswith(".sock"):
                    _send_to(sender, entry.path, message)
    except FileNotFoundError:  # nobody has ever listened here
        return


def _send_to(sender: socket.socket, listener: str, message: bytes) -> None:
    try:
        sender.sendto(message, listener)
    except BlockingIOError:
        Path(f"{listener}.full").touch()
        try:
            sender.sendto(b"*", listener)
        except OSError:
            return
    except ConnectionRefusedError:  # its process is gone
        Path(listener).unlink(missing_ok=True)
        Path(f"{listener}.full").unlink(missing_ok=True)
    except OSError:  # removed meanwhile, or no memory: bells may be lost
        return


def _parse(message: bytes) -> frozenset[str]:
    try:
        topics = frozenset(message.decode("ascii").split())
    except UnicodeDecodeError:
        return _ALL
    return topics or _ALL


async def listen(folder: Path) -> AsyncGenerator[frozenset[str]]:
    receiver, path = _bind(folder)
    overflow = f"{path}.full"
    try:
        yield _ALL
        loop = asyncio.get_running_loop()
        while True:
            first = await loop.sock_recv(receiver, MAX_DATAGRAM)
            yield _parse(first) | _drain(receiver, overflow)
    finally:
        receiver.close()
        _remove(path)


def _bind(folder: Path) -> tuple[socket.socket, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{os.getpid()}-{uuid4().hex[:8]}.sock"
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        with _opened(folder) as short:
            receiver.bind(f"{short}/{name}")
    except OSError:
        receiver.close()
        raise
    return receiver, folder / name


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    Path(f"{path}.full").unlink(missing_ok=True)


def _drain(receiver: socket.socket, overflow: str) -> frozenset[str]:
    """Everything else that waits in the socket; `*` where a sender found it full."""
    topics: frozenset[str] = frozenset()
    while True:
        try:
            topics |= _parse(receiver.recv(MAX_DATAGRAM))
        except BlockingIOError:
            break
    try:
        os.unlink(overflow)  # a path object costs more than the call, for each bell in each process
    except FileNotFoundError:
        return topics
    return topics | _ALL

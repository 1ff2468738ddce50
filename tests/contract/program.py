"""The program that the contract's runs execute, standard library only. What it does is its first argument.

serve            answer GET with facts about itself, until SIGTERM
alone            the same, but end with code 9 if another one is alone in this home already
deaf [MARKED]    the same, ignoring SIGTERM, together with a daemon in a session of its own that ignores it too; it drops
                 its environment unless it shall stay MARKED
mute FILE        hold the socket without answering until FILE appears in the home, then serve
eat BYTES        take so much memory and touch all of it
flood BYTES      print so many bytes, then a last line, then serve
say COUNT        print so many numbered lines, end with code 0
touch NAME       make that file in the home
end CODE         end with that code
die SIGNAL       end by that signal
read PATH        print what the file holds, or why it cannot be read
"""

import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

FIRST_SOCKET = 3
DAEMON = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        facts = {
            "pid": os.getpid(),
            "uid": os.getuid(),
            "groups": os.getgroups(),
            "home": os.environ["HOME"],
            "arguments": sys.argv[1:],
            "environment": dict(os.environ),
            "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
            "status": dict(
                line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line
            ),
            "core_limit": resource.getrlimit(resource.RLIMIT_CORE),
            "authorised": self.headers.get("Authorization") == f"Bearer {os.environ['TESSERA_TOKEN']}",
        }
        body = json.dumps(facts).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def serve() -> None:
    assert os.environ["LISTEN_PID"] == str(os.getpid()), "the socket is meant for somebody else"
    server = HTTPServer(("127.0.0.1", 0), Answer, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=FIRST_SOCKET)
    print("serving", flush=True)
    server.serve_forever()


def alone() -> None:
    mark = Path.home() / "alone"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        sys.exit(9)

    def leave(*_: object) -> None:
        mark.unlink()
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    serve()


def deaf(marked: str = "") -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if not marked:
                os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", DAEMON], {})
            while True:
                signal.pause()
        os._exit(0)
    os.wait()
    serve()


def eat(count: str) -> None:
    print("eating", flush=True)
    food = bytearray(int(count))
    for page in range(0, len(food), 4096):
        food[page] = 1
    print("full", flush=True)


def flood(count: str) -> None:
    line = b"0123456789abcdef" * 256
    for _ in range(int(count) // len(line)):
        os.write(1, line)
    print("\nlast line", flush=True)
    serve()


def mute(name: str) -> None:
    print("mute", flush=True)
    while not (Path.home() / name).exists():
        time.sleep(0.02)  # this is the program under test; nothing that is Tessera's asks like that
    serve()


def say(count: str) -> None:
    for number in range(int(count)):
        print(f"line {number} 第{number}行")


def touch(name: str) -> None:
    (Path.home() / name).touch()


def die(number: str) -> None:
    os.kill(os.getpid(), int(number))


def read(path: str) -> None:
    try:
        print("read:", Path(path).read_bytes()[:200])
    except OSError as error:
        print("refused:", error.strerror)


WORDS: dict[str, Callable[..., None]] = {
    word.__name__: word for word in (serve, alone, deaf, eat, flood, mute, say, touch, die, read)
} | {"end": lambda code: sys.exit(int(code))}

if __name__ == "__main__":
    WORDS[sys.argv[1]](*sys.argv[2:])

"""How much later is a notebook ready because the portal starts it? `python -m tests.bench.start --out build/bench.jsonl`.

Rounds are interleaved: the same JupyterLab bare (same program, same kind of socket, a fresh home), then through REST, quota, controller,
driver, claim, gateway check. The portal's own part is the difference of the two.
"""

import argparse
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from tests.e2e.conftest import until
from tests.product import Api, Product, running

ROUNDS = 20
NOBODY = 65534  # the account of that name
MEDIAN_BAR, WORST_BAR = 0.1, 0.3  # seconds
SHARE = {"tenant": "vision-lab", "environment": "notebook", "flavour": "small"}


def bare(product: Product) -> float:
    """Seconds from starting the server to its first answer; the request waits in the accept queue of an inherited socket."""
    program = Path(product.environment["TESSERA_ENVIRONMENTS"]) / "notebook" / "bin" / "tessera-notebook"
    with tempfile.TemporaryDirectory(prefix="tessera-bare-") as home, socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        env = {
            "HOME": home,
            "LANG": "C.UTF-8",
            "PATH": f"{program.parent}:/usr/bin:/bin",
            "TESSERA_TOKEN": "bare",
            "TESSERA_PORT": str(port),
        }
        fd = door.fileno()
        nobody = _unprivileged(Path(home))
        began = time.monotonic()
        # The socket as number 3 and the program's own number, as the convention (LISTEN_FDS) wants them.
        shell = f'exec 3<&{fd}; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http; exec "{program}"'
        server = subprocess.Popen(
            ["bash", "-c", shell],
            env=env,
            cwd=home,
            pass_fds=(fd,),
            **nobody,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/api/status", headers={"Authorization": "Bearer bare"}
            )
            with urllib.request.urlopen(request, timeout=120):
                return time.monotonic() - began
        finally:
            server.kill()
            server.wait()


def _unprivileged(home: Path) -> dict[str, Any]:
    """JupyterLab refuses to run as root, and experiments do not: an account without rights, which owns its home."""
    if os.geteuid() != 0:
        return {}
    os.chown(home, NOBODY, NOBODY)
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def through_the_portal(api: Api) -> float:
    """Seconds from sending the request to the moment of READY, which is after a request and a websocket through the gateway."""
    began = time.time()
    made = api("POST", "/experiments", {**SHARE, "name": "Measured"})
    assert made.status == 202, made
    path = f"/experiments/{made.body['id']}"
    until(lambda: api.get(path)["phase"] == "ready", "ready")
    steps = api.get(f"{path}/steps")["items"]
    ready = next(step["began_at"] for step in steps if step["phase"] == "ready")
    api("DELETE", path)
    until(lambda: api("GET", path).status == 404, "gone")
    return datetime.fromisoformat(ready).timestamp() - began


def measure() -> tuple[list[float], list[float]]:
    with running() as product:
        api = product.token("lin")
        bare(product), through_the_portal(api)  # not counted: files come into memory
        pairs = [(bare(product), through_the_portal(api)) for _ in range(ROUNDS)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    alone, ours = measure()
    base = median(alone)
    method = f"{ROUNDS} interleaved rounds on {os.cpu_count()} cores; bare server: median {base:.2f} s, worst {max(alone):.2f} s"
    figures = [
        ("start.own_part_median", median(ours) - base, MEDIAN_BAR, median(ours) / base),
        ("start.own_part_worst", max(ours) - base, WORST_BAR, max(ours) / base),
    ]
    with out.open("a", encoding="utf-8") as file:
        for name, value, bar, ratio in figures:
            figure = {
                "name": name, "value": round(value, 3), "unit": "s", "bar": bar, "holds": value <= bar, "control": None,
                "ratio_to": "the bare server", "ratio": round(ratio, 2), "method": method,
            }  # fmt: skip
            file.write(json.dumps(figure) + "\n")
            print(f"{name}: {value:.3f} s (bar {bar} s)")


if __name__ == "__main__":
    main()

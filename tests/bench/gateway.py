"""The gateway beside configurable-http-proxy: `python -m tests.bench.gateway --out build/bench.jsonl`.

Rounds are interleaved, so that whatever else the machine does meets all of them alike; medians are compared.
"""

import argparse
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench import sockets
from tests.bench.gateway_rig import Rig, Way

ROUNDS = 5
SECONDS = 2.0  # of one measurement
CONNECTIONS = 10
BAR = 5.0  # times configurable-http-proxy
WARM, MANY = 2_000, 10_000  # websockets opened and closed
FLAT = 4.0  # MiB that nginx may grow between the two
PEER = "configurable-http-proxy"


def requests(way: Way) -> float:
    """Small requests per second, counted by wrk."""
    door = way.door
    argv = [
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{SECONDS:.0f}s",
        "-H",
        f"Host: {door.host}",
        "-H",
        f"Cookie: {door.cookie}",
    ]
    told = subprocess.run(
        [*argv, f"http://127.0.0.1:{door.port}/api"], capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in told or "Socket errors" in told:
        raise SystemExit(f"not every request was answered well:\n{told}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", told)
    assert found is not None
    return float(found.group(1))


def echoes(way: Way) -> float:
    return sockets.echoes(way.door, CONNECTIONS, SECONDS)


def interleaved(ways: dict[str, Way], measure: Callable[[Way], float]) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        measure(way)  # not counted: the peer compiles itself while it runs
    for _ in range(ROUNDS):
        for name, way in ways.items():
            found[name].append(measure(way))
    return {name: median(values) for name, values in found.items()}


def requests_figure(rig: Rig) -> dict[str, Any]:
    rates = interleaved(rig.http, requests)
    ratio = rates["gateway"] / rates["peer"]
    return {
        "name": "gateway_small_requests",
        "value": round(rates["gateway"]),
        "unit": "requests/s",
        "bar": f">= {BAR:.0f} x {PEER}",
        "holds": ratio >= BAR,
        "control": round(rates["control"] / rates["peer"], 2),
        "ratio_to": PEER,
        "ratio": round(ratio, 2),
        "method": f"wrk, {CONNECTIONS} kept connections, {ROUNDS} interleaved rounds of {SECONDS:.0f} s, medians; every request "
        f"authorised; control: the ratio when answers of the authoriser are not remembered for 2 s; nginx that asks nobody: "
        f"{rates['bare']:.0f}/s, {PEER} (asks nobody): {rates['peer']:.0f}/s",
    }


def echoes_figure(rig: Rig) -> dict[str, Any]:
    rates = interleaved({name: rig.websocket[name] for name in ("gateway", "peer", "bare")}, echoes)
    ratio = rates["gateway"] / rates["peer"]
    return {
        "name": "gateway_websocket_echoes",
        "value": round(rates["gateway"]),
        "unit": "echoes/s",
        "bar": f">= 1 x {PEER}",
        "holds": ratio >= 1,
        "control": None,
        "ratio_to": PEER,
        "ratio": round(ratio, 2),
        "method": f"32 bytes back and forth over {CONNECTIONS} websockets, {ROUNDS} interleaved rounds of {SECONDS:.0f} s, medians; "
        "ours can be cut one by one when a right is withdrawn",
    }


def memory_figure(rig: Rig) -> dict[str, Any]:
    grown = {}
    for name in ("gateway", "peer"):
        way = rig.websocket[name]
        sockets.open_and_close(way.door, WARM)
        before = way.memory()
        sockets.open_and_close(way.door, MANY - WARM)
        grown[name] = way.memory() - before
    return {
        "name": "gateway_websocket_memory",
        "value": round(grown["gateway"], 1),
        "unit": "MiB",
        "bar": f"<= {FLAT:.0f}",
        "holds": grown["gateway"] <= FLAT,
        "control": round(grown["peer"], 1),
        "ratio_to": None,
        "ratio": None,
        "method": f"growth of nginx (master and workers) from the {WARM:,}th to the {MANY:,}th websocket opened, used and closed; "
        f"control: growth of {PEER} over the same",
    }


FIGURES = {
    "gateway_small_requests": requests_figure,
    "gateway_websocket_echoes": echoes_figure,
    "gateway_websocket_memory": memory_figure,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="only figures whose name begins so")
    parser.add_argument("--out", type=Path, default=Path("build/bench.jsonl"))
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed. Run: make setup-test, or apt-get install wrk")
    failed = False
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, options.out.open("a", encoding="utf-8") as out:
        rig = Rig(stack)
        for name, figure in FIGURES.items():
            if name.startswith(options.name):
                line = json.dumps(figure(rig), ensure_ascii=False)
                print(line, flush=True)
                out.write(line + "\n")
                failed |= not json.loads(line)["holds"]
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

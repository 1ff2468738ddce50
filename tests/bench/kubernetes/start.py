"""How much later is a notebook ready because the portal starts it? Against the same pod made by hand, in turns.

From the request to the portal to its phase READY, which is after a request and a websocket through the gateway; by hand, from the
first request to the API server to the first answer of the server in the pod.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from statistics import median
from typing import Any, Final

from tests.bench.kubernetes.bare import Pattern
from tests.bench.kubernetes.connection import Connected
from tests.bench.kubernetes.rig import GIB, Rig, load, rig, until
from tests.cluster.cluster import Options
from tests.product import Api
from vcuda.bench.figure import Figure

ROUNDS: Final = 20
TENS: Final = 7  # rounds of ten at once; a pod by hand meets waits of ten seconds now and then
_MADE: Final = (
    "by hand in the same namespace: same image, command, volume, claim; secret and claim template made before"
)


def _asked(memory: int, compute: int, cpu_milli: int) -> dict[str, Any]:
    gpu = {"count": 1, "memory_bytes": memory, "compute_permille": compute, "ceiling_permille": compute}
    resources = {"gpu": gpu, "cpu_milli": cpu_milli, "ram_bytes": GIB}
    return {"tenant": "vision-lab", "environment": "notebook", "resources": resources}


ONE: Final = _asked(8 * GIB, 300, 2000)
_PAUSE: Final = 2.0  # s
_CALM: Final = 1.0  # s after a pod's end; secret, claim, volume and mounts are removed after it, and whoever begins then pays for that
_MARKED: Final = 3.0  # s after READY, by which the portal has also written down that it is
SMALL: Final = _asked(GIB, 50, 500)


def measure() -> Iterator[Figure]:
    with rig(Options(cards=("h100", "h100"))) as made:
        yield from _in_turns(made)
        yield _ten_at_once(made)


def _in_turns(made: Rig) -> list[Figure]:
    api = made.apis[0]
    pattern = _pattern(made, ONE)
    alone: list[float] = []
    ours: list[float] = []
    sent: list[int] = []
    for number in range(-1, ROUNDS):  # the first is not counted: files come into memory
        part = (number % ROUNDS) / ROUNDS
        by_hand = _by_hand(pattern, f"bare-{number + 1}", part)
        before = made.sent()
        _await(part)
        seconds, path = _through_the_portal(api, ONE)
        time.sleep(_MARKED)
        requests = made.sent() - before
        _gone(api, path)
        if number >= 0:
            alone.append(by_hand)
            ours.append(seconds)
            sent.append(requests)
        print(f"  {number + 1}: by hand {by_hand:.2f} s, ours {seconds:.2f} s, {requests} requests", flush=True)
    base = median(alone)
    method = (
        f"{ROUNDS} rounds in turns, each at another part of a second and a second after the end of the one before; "
        f"POST to READY against the same pod {_MADE}: median {base:.2f} s, "
        f"worst {max(alone):.2f} s, ours {median(ours):.2f} and {max(ours):.2f} s; {load()}"
    )
    beside: dict[str, Any] = {"unit": "s", "ratio_to": "the pod by hand", "method": method}
    counted = (
        "requests of the portal's account, counted by the API server in a flow of its own, from POST to 3 s after READY, watches that "
        f"end and begin anew included; median of {ROUNDS} starts, at most {max(sent)}"
    )
    return [
        Figure(
            name="kubernetes.start.own_part_median",
            value=round(median(ours) - base, 3),
            bar=0.1,
            ratio=round(median(ours) / base, 2),
            **beside,
        ),
        Figure(
            name="kubernetes.start.own_part_worst",
            value=round(max(ours) - base, 3),
            bar=0.3,
            ratio=round(max(ours) / base, 2),
            **beside,
        ),
        Figure(name="kubernetes.requests_per_start", value=median(sent), unit="requests", bar=8, method=counted),
    ]


def _pattern(made: Rig, asked: dict[str, Any]) -> Pattern:
    api = made.apis[0]
    _, path = _through_the_portal(api, asked)
    pattern = Pattern(Connected(made.cluster.kubeconfig), path.rpartition("/")[2])
    _gone(api, path)
    return pattern


def _await(part: float) -> None:
    """Begin at this part of a second. The kubelet looks at its containers once a second: who begins at whatever part the pod before
    him left may meet the same wait in each round."""
    time.sleep((part - time.time()) % 1)


def _by_hand(pattern: Pattern, name: str, part: float) -> float:
    pod = pattern.prepare(name)
    _await(part)
    seconds = pattern.start(pod)
    pattern.end(name)
    time.sleep(_CALM)
    return seconds


def _through_the_portal(api: Api, asked: dict[str, Any], name: str = "Measured") -> tuple[float, str]:
    began = time.time()
    made = api("POST", "/experiments", {**asked, "name": name})
    assert made.status == 202, made
    path = f"/experiments/{made.body['id']}"
    _ready(api, path)
    return _ready_at(api, path) - began, path


def _ready(api: Api, path: str) -> None:
    """Asked seldom: when it was, the portal says, and an answer costs it 20 ms of the processor that is measured."""
    time.sleep(_PAUSE)
    until(lambda: api.get(path)["phase"] == "ready", "ready", pause=_PAUSE)


def _ready_at(api: Api, path: str) -> float:
    steps = api.get(f"{path}/steps")["items"]
    return datetime.fromisoformat(next(step["began_at"] for step in steps if step["phase"] == "ready")).timestamp()


def _gone(api: Api, path: str) -> None:
    api("DELETE", path, {"remove_home": True})
    until(lambda: api("GET", path).status == 404, "gone", pause=0.1)
    time.sleep(_CALM)


def _ten_at_once(made: Rig) -> Figure:
    pattern = _pattern(made, SMALL)
    bare: list[float] = []
    ours: list[float] = []
    with ThreadPoolExecutor(len(made.apis)) as pool:
        for turn in range(TENS):
            pods = [pattern.prepare(f"ten-{turn}-{number}") for number in range(len(made.apis))]
            bare.append(max(pool.map(pattern.start, pods)))
            pattern.end(*(pod["metadata"]["name"] for pod in pods))
            time.sleep(_CALM)
            began = time.time()
            paths = list(pool.map(lambda api: _post(api, SMALL), made.apis))
            for api, path in zip(made.apis, paths, strict=True):
                _ready(api, path)
            ours.append(max(_ready_at(api, path) for api, path in zip(made.apis, paths, strict=True)) - began)
            list(pool.map(_gone, made.apis, paths))
    method = (
        f"ten people ask at the same moment, each for 1 GiB and 50 per mille; the last READY against the last of ten pods {_MADE}; "
        f"median of {TENS} turns: ours {', '.join(f'{one:.1f}' for one in ours)} s, by hand {', '.join(f'{one:.1f}' for one in bare)} s; "
        f"{load()}"
    )
    return Figure(
        name="kubernetes.start.ten_at_once",
        value=round(median(ours) - median(bare), 3),
        unit="s",
        bar=0.5,
        ratio_to="ten pods by hand",
        ratio=round(median(ours) / median(bare), 2),
        method=method,
    )


def _post(api: Api, asked: dict[str, Any]) -> str:
    made = api("POST", "/experiments", {**asked, "name": "One of ten"})
    assert made.status == 202, made
    return f"/experiments/{made.body['id']}"

"""The CDI file of a claim: what the container runtime puts into the claim's containers. Written in one step, found again after a crash.

It is also our record of whose a claim is: it comes before the claim's folder and goes after it.

What such a container sees (`<claim>` is the claim's folder on the machine, `<place>` where the driver's files lie in containers):

    /run/tessera/claim            <claim>, read-only but for `ledger`, `lock` and `log`
    /usr/local/tessera/lib        <claim>/lib: the limiting library, first on LD_LIBRARY_PATH
    <place>/libcuda.so.1 …        the same two files where a program without that variable looks
    <place>/driver                the driver behind them
    /run/tessera/sim.node         a simulated node's state, or the devices and files of a real driver

One name for two places is no danger: the loader knows a file that it has loaded by device and inode.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from vcuda.node.dra.allocation import Allocation
from vcuda.node.dra.host import Edits, HostDriver
from vcuda.node.prepare import CUDA, INSIDE_CLAIM, INSIDE_NODE, MARKER, NVML, SHARED, Libraries

VERSION: Final = "0.6.0"
KIND: Final = "tessera.dev/claim"
LIBRARY: Final = "/usr/local/tessera/lib"
PLACE: Final = "/usr/lib/x86_64-linux-gnu"  # of the driver's files, where the machine does not say otherwise
_OWNER: Final = ("tessera.dev/namespace", "tessera.dev/name")  # annotations: whose the claim is
_PREFIX, _SUFFIX, _NEW = "tessera-", ".json", ".new"  # the runtime reads *.json and *.yaml only
_READ: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_WRITE: Final = ("rw", "nosuid", "nodev", "noexec", "rbind", "rprivate")


class CdiFolder:
    """`folder` is one that the container runtime watches, /var/run/cdi. `claims` is the folder of the claims."""

    def __init__(self, folder: Path, claims: Path, libraries: Libraries | None, driver: HostDriver | None) -> None:
        self._folder = folder
        self._claims = claims
        self._libraries = libraries
        self._driver = driver

    def clear(self) -> None:
        """Take away what a former agent was in the middle of writing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob(f".{_PREFIX}*{_NEW}"):
            path.unlink(missing_ok=True)

    def write(self, allocation: Allocation, *, namespace: str, name: str) -> None:
        """Complete or not at all; the same again changes nothing."""
        path = self._path(allocation.claim.name)
        text = json.dumps(self._spec(allocation, (namespace, name)), indent=1)
        with suppress(OSError, ValueError):
            if path.read_text() == text:
                return
        fresh = path.with_name(f".{path.name}{_NEW}")
        fresh.write_text(text)
        fresh.replace(path)

    def remove(self, uid: str) -> None:
        """Missing is success."""
        self._path(uid).unlink(missing_ok=True)

    def owners(self) -> Iterator[tuple[str, str, str]]:
        """uid, namespace and name of the ResourceClaim behind each file."""
        for path in sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}")):
            with suppress(OSError, ValueError, KeyError, TypeError):
                notes = json.loads(path.read_text())["annotations"]
                yield path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX), notes[_OWNER[0]], notes[_OWNER[1]]

    def _path(self, uid: str) -> Path:
        return self._folder / f"{_PREFIX}{uid}{_SUFFIX}"

    def _spec(self, allocation: Allocation, owner: Sequence[str]) -> dict[str, Any]:
        claim = allocation.claim
        cards = {granted.device: granted.card for granted in allocation.granted}
        return {
            "cdiVersion": VERSION,
            "kind": KIND,
            "annotations": dict(zip(_OWNER, owner, strict=True)),
            "devices": [
                {"name": _device(claim.name, device), "containerEdits": self._card(device, card).as_json()}
                for device, card in sorted(cards.items())
            ],
            "containerEdits": self._common(claim.name, sorted(cards.values())).as_json(),
        }

    def _card(self, device: str, card: str) -> Edits:
        """What one card adds; never empty, which the runtime refuses."""
        named = Edits(env=[f"TESSERA_DEVICE_{device.replace('-', '_').upper()}={card}"])
        return named + self._driver.card(card) if self._driver else named

    def _common(self, uid: str, cards: Iterable[str]) -> Edits:
        claim = self._claims / uid
        lib = claim / "lib"
        edits = Edits(
            env=[
                f"LD_LIBRARY_PATH={LIBRARY}",
                f"CUDA_VISIBLE_DEVICES={','.join(cards)}",
                f"{MARKER}={uid}",
                "NVIDIA_VISIBLE_DEVICES=void",  # a runtime of NVIDIA's adds nothing of its own
            ],
            mounts=[
                mount(claim, INSIDE_CLAIM),
                *(mount(claim / name, f"{INSIDE_CLAIM}/{name}", options=_WRITE) for name in SHARED),
                mount(lib, LIBRARY),
            ],
        )
        if self._driver is None:
            return edits + _behind(lib, PLACE) + self._sim_node()
        return edits + self._driver.common() + _behind(lib, self._driver.place) + self._hidden()

    def _sim_node(self) -> Edits:
        node = self._libraries.sim_node if self._libraries else None
        return Edits(mounts=[mount(node, INSIDE_NODE, options=_WRITE)] if node else [])

    def _hidden(self) -> Edits:
        """The real driver's two files, over the empty ones of the claim, at both places."""
        assert self._driver
        places = (LIBRARY, self._driver.place)
        files = self._driver.hidden.items()
        return Edits(mounts=[mount(path, f"{place}/driver/{name}") for place in places for name, path in files])


def device_id(uid: str, device: str) -> str:
    return f"{KIND}={_device(uid, device)}"


def _device(uid: str, device: str) -> str:
    return f"{uid}-{device}"


def mount(source: Path | str, target: str, *, options: Sequence[str] = _READ) -> dict[str, Any]:
    return {"hostPath": str(source), "containerPath": target, "options": list(options)}


def _behind(lib: Path, place: str) -> Edits:
    """The limiting library where the driver's files would lie, and the hidden driver beside it."""
    return Edits(
        mounts=[
            *(mount(lib / name, f"{place}/{name}") for name in (CUDA, NVML)),
            mount(lib / "driver", f"{place}/driver"),
        ]
    )

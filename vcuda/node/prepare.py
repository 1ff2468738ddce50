"""The folder of a claim: made whole or not at all, found again after a restart, never taken from under a program.

Owns the tree below `<state>/claims`; the bytes inside `config`, `ledger` and `lock` belong to `layout`. Decides
nothing about shares.

    <claims>/<name>/            agent, claim's group may walk through
      config                    agent writes, everybody of the claim reads
      ledger lock log           belong to the claim's account
      group -> …                its programs' control group, where there is one
      lib/                      what LD_LIBRARY_PATH names
        libcuda.so.1 libnvidia-ml.so.1        the limiting library
        claim -> ..                           where it looks for its claim
        driver/libcuda.so.1 libnvidia-ml.so.1 the driver behind it
        driver/tessera-sim.node               only on a simulated node

A contained claim looks the same, seen from inside its containers: links lead to where `dra.cdi` mounts things there, a
real driver's files are empty and get theirs mounted over them, and any account may write `ledger`, `lock` and `log`:
`<claims>` is closed to all others.

Without the limiting library (backend `exclusive`), `lib` holds the driver itself, and no `claim`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vcuda.node.claims import Claim, part_of
from vcuda.node.errors import Invalid, Unavailable
from vcuda.node.layout import ConfigFile, DeviceRecord, create_files

CUDA: Final = "libcuda.so.1"
NVML: Final = "libnvidia-ml.so.1"
NODE_FILE: Final = "tessera-sim.node"
MARKER: Final = "TESSERA_CLAIM"  # environment variable by which a claim's programs are found again
SHARED: Final = ("ledger", "lock", "log")  # what programs write
INSIDE_CLAIM: Final = "/run/tessera/claim"  # in a container; known to the library (vcuda/ABI.md)
INSIDE_NODE: Final = "/run/tessera/sim.node"
_NEW, _GONE = ".new-", ".gone-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """The limiting library, the driver that it hides, and the simulated node (None: a real driver)."""

    shim: Path
    driver: dict[str, Path]
    sim_node: Path | None


def prepare(
    root: Path, claim: Claim, records: Sequence[DeviceRecord], libraries: Libraries, *, shim: bool = True
) -> Path:
    """Make the claim's folder below `root` in one step; an existing one is left as it is. `shim`: with the limiting library.

    Libraries are copied, not linked: their own folder may be closed to the claim's account, and a program keeps the
    release that it began with. A real driver is linked, it is large and belongs to the system.
    """
    final = root / claim.name
    if final.exists():
        return final
    temporary = root / f"{_NEW}{claim.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(mode=0o700)
    shared_mode = 0o666 if claim.contained else 0o600
    create_files(temporary, tag=tag_of(claim.name), records=records, shared_mode=shared_mode)
    if claim.group:
        (temporary / "group").symlink_to(claim.group)
    if shim:
        _make_library_tree(temporary / "lib", libraries, contained=claim.contained)
    else:
        _place_driver(temporary / "lib", libraries, contained=claim.contained)
    _give(temporary, claim)
    temporary.rename(final)
    return final


def remove(root: Path, name: str) -> None:
    """Take the folder away in one step, then its files; a folder that is gone is no error."""
    gone = root / f"{_GONE}{name}"
    shutil.rmtree(gone, ignore_errors=True)
    try:
        (root / name).rename(gone)
    except FileNotFoundError:
        return
    shutil.rmtree(gone)


def found(root: Path) -> Iterator[Path]:
    """The folders that a former agent left, after clearing away what it was in the middle of making or removing."""
    for path in sorted(root.iterdir()):
        if path.name.startswith((_NEW, _GONE)):
            shutil.rmtree(path)
        elif path.is_dir():
            yield path


def adopt(folder: Path) -> Claim:
    """The claim that a folder holds: limits from `config`, the account from owner and mode of `ledger`, the link to its group.

    Raises LayoutError when the files are of another layout.
    """
    config = ConfigFile(folder / "config")
    try:
        parts = tuple(part_of(config.salvage(index)) for index in range(config.count))
    finally:
        config.close()
    ledger = (folder / "ledger").stat()
    contained = bool(ledger.st_mode & stat.S_IWOTH)
    group = str((folder / "group").readlink()) if (folder / "group").is_symlink() else ""
    return Claim(name=folder.name, parts=parts, uid=ledger.st_uid, gid=ledger.st_gid, contained=contained, group=group)


def has_shim(folder: Path) -> bool:
    """Whether programs of the claim meet the limiting library: its way to the claim is there."""
    return (folder / "lib" / "claim").is_symlink()


def environment(root: Path, claim: Claim) -> dict[str, str]:
    """What a program of the claim has in its environment. It limits nothing: the library obeys files only."""
    return {
        "LD_LIBRARY_PATH": str(root / claim.name / "lib"),
        "CUDA_VISIBLE_DEVICES": ",".join(part.uuid for part in claim.parts),
        MARKER: claim.name,
    }


def tag_of(name: str) -> bytes:
    return hashlib.sha256(name.encode("ascii")).digest()[:16]


def our_account() -> tuple[int, int]:
    """For claims whose programs may run under any account: their files stay the agent's."""
    return os.geteuid(), os.getegid()


def closed_parent(root: Path, uid: int) -> Path | None:
    """A folder above `root` that an account other than ours cannot walk through."""
    if uid == os.geteuid():
        return None
    return next((parent for parent in (root, *root.parents) if not parent.stat().st_mode & 0o001), None)


def check_group(claim: Claim) -> None:
    """Refuse what is no control group of version 2: a limit on it would be none."""
    if claim.group and not (Path(claim.group) / "cgroup.controllers").exists():
        raise Invalid(f"{claim.group} is no control group of version 2.", hint="Leave 'group' away, or make it first.")


def check_account(root: Path, claim: Claim) -> None:
    """Refuse a claim for an account that we cannot give files to, or that could not reach them."""
    if os.geteuid() != 0 and (claim.uid, claim.gid) != (os.geteuid(), os.getegid()):
        raise Unavailable(
            f"This agent runs under account {os.geteuid()}:{os.getegid()} and cannot give files to "
            f"{claim.uid}:{claim.gid}.",
            code="not_root",
            hint="Start the agent as root, or run all programs under the agent's account.",
        )
    closed = None if claim.contained else closed_parent(root, claim.uid)
    if closed is not None:
        raise Unavailable(
            f"Account {claim.uid} could not reach its claim: {closed} is closed to others.",
            code="state_unreachable",
            hint=f"Run `chmod o+x {closed}`, or keep the state in another folder.",
        )


def _make_library_tree(lib: Path, libraries: Libraries, *, contained: bool) -> None:
    driver = lib / "driver"
    driver.mkdir(parents=True)
    (lib / "claim").symlink_to(INSIDE_CLAIM if contained else "..")
    for name in (CUDA, NVML):
        _copy(libraries.shim / name, lib / name)
    _place_driver(driver, libraries, contained=contained)


def _place_driver(folder: Path, libraries: Libraries, *, contained: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CUDA, NVML):
        if libraries.sim_node is not None:
            _copy(libraries.driver[name], folder / name)
        elif contained:
            (folder / name).touch(0o644)
        else:
            (folder / name).symlink_to(libraries.driver[name])
    if libraries.sim_node is not None:
        (folder / NODE_FILE).symlink_to(INSIDE_NODE if contained else libraries.sim_node)


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        raise Unavailable(
            f"The library {source} is missing.", code="library_missing", hint="Build it with `make vcuda`."
        ) from None
    target.chmod(0o755)


def _give(folder: Path, claim: Claim) -> None:
    """Hand the books to the claim's account, and open the rest to its group for reading only; to all inside a container."""
    for path in (folder / "lib", folder / "lib" / "driver"):
        if path.exists():
            path.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, 0, claim.gid)
        for name in SHARED:
            os.chown(folder / name, claim.uid, claim.gid)
    folder.chmod(0o755 if claim.contained else 0o750)

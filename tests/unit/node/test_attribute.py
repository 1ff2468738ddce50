"""Processes find their claims: real processes, marked, unmarked, orphaned and foreign."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vcuda.node.attribute import Attribution

ACCOUNTS = {"claim-a": 300_001, "claim-b": 300_002}


@contextmanager
def running(*command: str, marker: str | None = None) -> Iterator[int]:
    """A program that prints a line when it is up and lives until its input ends; yields the number that it printed."""
    env = {"PATH": os.environ["PATH"]} | ({"TESSERA_CLAIM": marker} if marker else {})
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        yield int(program.stdout.readline())
        assert program.stdin is not None
        program.stdin.close()
        program.wait()


WAIT = ("sh", "-c", "echo $$; read _")
CHILD_WITHOUT_ENVIRONMENT = ("sh", "-c", "env -i sh -c 'echo $$; read _' <&0")


@pytest.fixture
def attribution() -> Attribution:
    return Attribution()


def test_a_marked_process_belongs_to_its_claim(attribution: Attribution) -> None:
    with running(*WAIT, marker="claim-a") as pid:
        assert attribution.claim_of(pid, ACCOUNTS) == "claim-a"


def test_a_child_that_shed_its_environment_belongs_to_its_parents_claim(attribution: Attribution) -> None:
    with running(*CHILD_WITHOUT_ENVIRONMENT, marker="claim-b") as pid:
        assert b"TESSERA_CLAIM" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert attribution.claim_of(pid, ACCOUNTS) == "claim-b"


def test_a_stranger_and_an_unknown_claim_belong_to_nobody(attribution: Attribution) -> None:
    with running(*WAIT) as stranger, running(*WAIT, marker="claim-of-another-machine") as other:
        assert attribution.claim_of(stranger, ACCOUNTS) is None
        assert attribution.claim_of(other, ACCOUNTS) is None


def test_a_process_that_has_ended_belongs_to_nobody(attribution: Attribution) -> None:
    with running(*WAIT, marker="claim-a") as pid:
        assert attribution.claim_of(pid, ACCOUNTS) == "claim-a"
    assert attribution.claim_of(pid, ACCOUNTS) is None


def test_what_was_found_is_forgotten_with_the_claim(attribution: Attribution) -> None:
    with running(*WAIT, marker="claim-a") as pid:
        assert attribution.claim_of(pid, ACCOUNTS) == "claim-a"
        assert attribution.claim_of(pid, {"claim-b": 1}) is None


def test_the_only_claim_of_an_account_gets_its_unmarked_processes() -> None:
    mine = os.geteuid()
    with running(*WAIT) as pid:
        elsewhere = Attribution(own_account=mine + 1)
        assert elsewhere.claim_of(pid, {"claim-a": mine}) == "claim-a"
        assert Attribution(own_account=mine + 1).claim_of(pid, {"claim-a": mine, "claim-b": mine}) is None


def test_the_agents_own_account_proves_nothing(attribution: Attribution) -> None:
    with running(*WAIT) as pid:
        assert attribution.claim_of(pid, {"claim-a": os.geteuid()}) is None


def test_the_control_group_of_an_ancestor_is_believed_before_a_marker(tmp_path: Path) -> None:
    """A tree like /proc, since control groups may not be ours to make here."""
    for pid, parent, group, marker in (
        (500, 1, "0::/tessera/tessera-claim-b.scope", b""),
        (501, 500, "0::/", b"A=1\0TESSERA_CLAIM=claim-a\0"),
    ):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a) name) S {parent} {' 0' * 17} 99 0")
        (folder / "cgroup").write_text(group + "\n")
        (folder / "environ").write_bytes(marker)
    assert Attribution(proc=tmp_path).claim_of(501, ACCOUNTS) == "claim-b"


def test_commands_are_named_for_people(attribution: Attribution) -> None:
    with running(sys.executable, "-c", "import os; print(os.getpid(), flush=True); input()") as pid:
        assert attribution.command(pid).startswith("python")


POD = "0b5a4c7e-1111-2222-3333-444455556666"
CGROUPS = [
    f"0::/kubepods/burstable/pod{POD}/0123abcd\n",
    f"4:memory:/kubepods/besteffort/pod{POD}/0123abcd\n1:name=systemd:/kubepods/besteffort/pod{POD}/0123abcd\n",
    f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-01.scope\n",
    f"0::/../../pod{POD}/0123abcd\n",  # as an agent in a control group namespace of its own sees it
]


def in_group(folder: Path, text: str, *, marker: str = "") -> Attribution:
    """A machine on which process 7 is in a control group; what it says of itself is `marker`."""
    (folder / "7").mkdir()
    (folder / "7" / "stat").write_text("7 (python) S 1 " + " ".join(["0"] * 40))
    (folder / "7" / "cgroup").write_text(text)
    (folder / "7" / "environ").write_text(f"TESSERA_CLAIM={marker}\0" if marker else "")
    return Attribution(proc=folder)


@pytest.mark.parametrize("text", CGROUPS)
def test_a_process_in_a_pod_belongs_to_the_pods_claim(tmp_path: Path, text: str) -> None:
    attribution = in_group(tmp_path, text)
    assert attribution.claim_of(7, ACCOUNTS) is None
    attribution.pods = {"claim-a": frozenset({POD}), "claim-b": frozenset({"another"})}
    assert attribution.claim_of(7, ACCOUNTS) == "claim-a"


def test_what_a_program_says_of_itself_does_not_move_it_to_another_claim(tmp_path: Path) -> None:
    attribution = in_group(tmp_path, CGROUPS[0], marker="claim-b")
    attribution.pods = {"claim-a": frozenset({POD}), "claim-b": frozenset({"another"})}
    assert attribution.claim_of(7, ACCOUNTS) == "claim-a"


def test_in_a_pod_with_two_claims_the_environment_decides_between_them(tmp_path: Path) -> None:
    attribution = in_group(tmp_path, CGROUPS[0], marker="claim-b")
    attribution.pods = {"claim-a": frozenset({POD}), "claim-b": frozenset({POD})}
    assert attribution.claim_of(7, ACCOUNTS) == "claim-b"
    (tmp_path / "7" / "environ").write_text("TESSERA_CLAIM=claim-c\0")
    attribution._known.clear()
    assert attribution.claim_of(7, ACCOUNTS | {"claim-c": 0}) is None, "not one of the pod's"


def test_who_holds_a_slot_of_a_claims_books_belongs_to_it(tmp_path: Path) -> None:
    attribution = in_group(tmp_path, CGROUPS[0], marker="claim-b")
    assert attribution.claim_of(7, ACCOUNTS, {7: "claim-a"}) == "claim-a"
    assert attribution.claim_of(7, ACCOUNTS, {8: "claim-a"}) == "claim-b"

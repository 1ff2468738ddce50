"""Cards from slices, holders from claims, and why somebody waits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.drivers.kubernetes import explain, quantities
from apps.cluster.drivers.kubernetes.adapters import Offers, choose
from apps.cluster.drivers.kubernetes.inventory import inventory
from apps.cluster.drivers.kubernetes.world import World
from apps.cluster.specs import Card
from apps.core.reason_texts import CATALOGUE
from apps.core.share import GIB, GpuShare, Resources
from tests.unit.kubernetes.made import THIRD, WHOLE, claim, device, node, pod, slice_, spec


def world(*devices: dict[str, Any], nodes: tuple[dict[str, Any], ...] | None = None) -> World:
    made = World()
    for one in (node(),) if nodes is None else nodes:
        made.node_changed(None, one)
    made.slice_changed(None, slice_(*devices))
    return made


def test_a_card_is_what_its_device_says() -> None:
    (card,) = world(device(0)).cards()
    assert (card.uuid, card.node, card.index, card.model) == ("GPU-0", "n1", 0, "H100")
    assert (card.memory, card.simulated, card.healthy) == (79 * GIB, True, True)
    assert card.attributes == {"driver_version": "580.1.2", "pcie_root": "pci0000:00"}


def test_names_with_the_drivers_domain_are_the_same_names() -> None:
    qualified = device(0)
    qualified["attributes"] = {
        f"gpu.tessera.dev/{key}" if "/" not in key else key: v for key, v in qualified["attributes"].items()
    }
    qualified["capacity"] = {f"gpu.tessera.dev/{key}": value for key, value in qualified["capacity"].items()}
    assert world(qualified).cards() == world(device(0)).cards()


@pytest.mark.parametrize(
    ("taints", "healthy", "why"),
    [
        ([], True, ""),
        ([{"key": "gpu.tessera.dev/unhealthy", "value": "xid_79", "effect": "NoSchedule"}], False, "xid_79"),
        ([{"key": "gpu.tessera.dev/unhealthy", "effect": "NoExecute"}], False, "unhealthy"),
        ([{"key": "note", "value": "warm", "effect": "None"}], True, ""),
    ],
)
def test_a_tainted_card_is_given_to_nobody(taints: list[dict[str, str]], healthy: bool, why: str) -> None:
    (card,) = world(device(0, taints=taints)).cards()
    assert (card.healthy, card.health_reason) == (healthy, why)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [((), "node_gone"), ((node(ready="Unknown"),), "node_silent"), ((node(unschedulable=True),), "node_cordoned")],
)
def test_nor_is_one_on_a_node_that_takes_nothing(nodes: tuple[dict[str, Any], ...], why: str) -> None:
    (card,) = world(device(0), nodes=nodes).cards()
    assert (card.healthy, card.health_reason) == (False, why)


def test_holders_are_workloads_and_others_take_room_as_well() -> None:
    made = world(device(0), device(1))
    made.claim_changed(None, claim(spec(), ("gpu-0", "8Gi", "300")))
    made.claim_changed(None, claim(None, ("gpu-0", "4Gi", "100"), name="theirs"))
    made.claim_changed(None, claim(None, name="not-allocated"))
    first, second = made.cards()
    assert [(h.uid, h.memory, h.compute, h.ceiling) for h in first.holders] == [
        (spec().uid, 8 * GIB, 300, 700),
        ("elsewhere/theirs", 4 * GIB, 100, 700),
    ]
    assert second.holders == ()
    assert (first.free_memory, first.free_compute) == (67 * GIB, 600)


def test_a_claim_without_amounts_holds_all_of_its_card() -> None:
    made = world(device(0))
    made.claim_changed(None, claim(spec(), ("gpu-0", None, None)))
    (card,) = made.cards()
    assert (card.free_memory, card.free_compute) == (0, 0)


def test_room_comes_back_with_a_claims_end_and_a_change_counts_once() -> None:
    made = world(device(0))
    held = claim(spec(), ("gpu-0", "8Gi", "300"))
    made.claim_changed(None, held)
    larger = claim(spec(), ("gpu-0", "16Gi", "300"))
    made.claim_changed(held, larger)
    assert made.cards()[0].free_memory == 63 * GIB
    assert made.owner_of_claim("claim-c") == spec().uid
    made.claim_changed(larger, None)
    assert made.cards()[0].free_memory == 79 * GIB
    assert made.owner_of_claim("claim-c") == ""


def test_of_a_pools_slices_the_newest_generation_counts() -> None:
    made = world(device(0), device(1))
    made.slice_changed(None, slice_(device(5), generation=2))
    assert [card.uuid for card in made.cards()] == ["GPU-5"]
    made.slice_changed(slice_(device(5), generation=2), None)
    assert [card.uuid for card in made.cards()] == ["GPU-0", "GPU-1"]
    made.slice_changed(slice_(device(0), device(1)), None)
    assert made.cards() == ()


def test_a_pods_cards_are_those_of_its_claims() -> None:
    made = world(device(0), device(1))
    held = claim(spec(), ("gpu-1", "8Gi", "300"))
    made.claim_changed(None, held)
    owner = pod(status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]})
    assert made.cards_of(owner) == ("GPU-1",)
    assert made.cards_of(pod()) == ()


def test_the_inventory_names_the_largest_machine_and_how_cards_are_cut() -> None:
    made = world(device(0), nodes=(node(), node("n2")))
    made.nodes["n2"]["status"]["allocatable"] = {"cpu": "2500m", "memory": "64Gi"}
    told = inventory(made, choose(Offers(True, ("gpu.tessera.dev",), made.slices, [])), silent_agents=True)
    assert (told.driver, told.ram, told.cpu_milli, told.isolation) == ("kubernetes", 64 * GIB, 8000, "pods_per_run")
    assert told.notes == ("slices_dra", "agents_silent")
    assert all(code in CATALOGUE for code in (*told.notes, told.isolation))


# --- Why somebody waits --------------------------------------------------------------------------------------------------
CANNOT = "0/1 nodes are available: 1 cannot allocate all claims."


def asked(gpu: GpuShare | None = THIRD) -> Resources:
    return Resources(gpu, 1000, GIB)


def test_a_full_card_is_explained_by_its_holders_and_the_room_left() -> None:
    made = world(device(0), device(1))
    for number, place in enumerate(("gpu-0", "gpu-0", "gpu-0", "gpu-1", "gpu-1", "gpu-1")):
        made.claim_changed(None, claim(spec(uid=f"u{number}"), (place, "8Gi", "300"), name=f"c{number}"))
    reason, evidence = explain.why_waiting(asked(), made.cards(), CANNOT)
    assert reason == "waiting_card"
    assert (evidence["room_bytes"], evidence["room_permille"]) == (55 * GIB, 100)
    assert evidence["problem"] == CANNOT
    assert {card["uuid"]: [h["uid"] for h in card["holders"]] for card in evidence["cards"]} == {
        "GPU-0": ["u0", "u1", "u2"],
        "GPU-1": ["u3", "u4", "u5"],
    }


@pytest.mark.parametrize(
    ("resources", "message", "reason"),
    [
        (asked(GpuShare(1, 100 * GIB, 100, 100)), CANNOT, "never_fits_card"),
        (asked(GpuShare(3, 8 * GIB, 100, 100)), CANNOT, "never_fits_card"),
        (asked(WHOLE), CANNOT, "waiting_card"),
        (asked(), "0/1 nodes are available: 1 Insufficient memory.", "waiting_node"),
        (asked(None), "0/1 nodes are available: 1 Too many pods.", "waiting_node"),
        (asked(None), "0/1 nodes are available: 1 node(s) had untolerated taint {a: b}.", "waiting_scheduler"),
        (asked(), "pod has unbound immediate PersistentVolumeClaims. not found", "volume_not_bound"),
        (asked(None), '0/1 nodes are available: persistentvolumeclaim "v-1" not found.', "volume_not_bound"),
    ],
)
def test_each_wait_has_its_reason(resources: Resources, message: str, reason: str) -> None:
    made = world(device(0), device(1))
    made.claim_changed(None, claim(spec(), ("gpu-0", "8Gi", "300")))
    found, evidence = explain.why_waiting(resources, made.cards(), message)
    assert found == reason
    assert found in CATALOGUE
    assert evidence["problem"] == message


def test_without_a_healthy_card_there_is_none_to_wait_for() -> None:
    assert explain.why_waiting(asked(), (), CANNOT)[0] == "no_cards"
    sick = world(device(0, taints=[{"key": "a/b", "effect": "NoSchedule"}]))
    assert explain.why_waiting(asked(), sick.cards(), CANNOT)[0] == "no_cards"


def test_room_on_two_machines_is_not_room_for_two_cards_of_one() -> None:
    cards = [Card(f"GPU-{n}", f"n{n}", 0, "H100", 79 * GIB, 80 * GIB) for n in range(2)]
    reason, _, has_room = explain.why_no_card(GpuShare(2, GIB, 100, 100), cards)
    assert (reason, has_room) == ("never_fits_card", False)


def test_the_evidence_of_a_large_cluster_stays_small() -> None:
    cards = [Card(f"GPU-{n}", f"n{n}", 0, "H100", n * GIB, 80 * GIB) for n in range(1, 100)]
    _, evidence, _ = explain.why_no_card(GpuShare(1, 99 * GIB, 100, 100), cards)
    assert len(evidence["cards"]) == explain.SHOWN
    assert evidence["cards"][0]["uuid"] == "GPU-99"
    assert evidence["gpus"] == 99


@given(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 1000)), max_size=6), st.integers(1, 80), st.integers(1, 999)
)
def test_room_is_said_exactly_where_a_card_has_it(taken: list[tuple[int, int]], memory: int, compute: int) -> None:
    made = world(*(device(index) for index in range(len(taken))))
    for index, (held, share) in enumerate(taken):
        made.claim_changed(
            None, claim(spec(uid=f"u{index}"), (f"gpu-{index}", f"{held}Gi", str(share)), name=f"c{index}")
        )
    _, _, has_room = explain.why_no_card(GpuShare(1, memory * GIB, compute, 1000), made.cards())
    assert has_room == any(79 - held >= memory and 1000 - share >= compute for held, share in taken)


# What may happen, each to one of a few things: (what, which, how).
HAPPENING = st.tuples(st.sampled_from(["node", "slice", "claim"]), st.integers(0, 2), st.integers(0, 3))


def _thing(what: str, which: int, how: int) -> dict[str, Any] | None:
    """Of kind `what` number `which`; `how` says in which state, 0: it is gone."""
    if how == 0:
        return None
    if what == "node":
        return node(f"n{which}", ready="True" if how == 1 else "False", unschedulable=how == 3)
    if what == "slice":
        return slice_(*(device(index) for index in range(how)), name=f"n{which}", pool=f"n{which}")
    return claim(spec(uid=f"u{which}"), (f"gpu-{how - 1}", f"{how}Gi", "100"), name=f"c{which}", pool=f"n{how % 3}")


@given(st.lists(HAPPENING, max_size=30), st.sets(st.integers(0, 29)))
def test_cards_are_the_same_however_the_world_came_to_be(
    happenings: list[tuple[str, int, int]], looks: set[int]
) -> None:
    """Those that changed alone are made anew; whoever begins with what is there now sees the same."""
    made, there = World(), dict[tuple[str, int], dict[str, Any]]()
    for number, (what, which, how) in enumerate(happenings):
        before, after = there.get((what, which)), _thing(what, which, how)
        if before is None and after is None:
            continue
        getattr(made, f"{what}_changed")(before, after)
        if after is None:
            del there[what, which]
        else:
            there[what, which] = after
        if number in looks:
            made.cards()
    fresh = World()
    for (what, _which), thing in there.items():
        getattr(fresh, f"{what}_changed")(None, thing)
    assert made.cards() == fresh.cards()


def test_a_card_to_which_nothing_happens_stays_the_same_object() -> None:
    made = world(device(0), device(1))
    first, second = made.cards()
    made.claim_changed(None, claim(spec(), ("gpu-0", "8Gi", "300")))
    assert made.cards()[0] != first
    assert made.cards()[1] is second


def test_capacities_are_read_in_any_unit() -> None:
    made = world(device(0, capacity={"memory": {"value": "81920M"}, "compute": {"value": "1k"}}))
    assert made.cards()[0].memory == quantities.whole("81920M")

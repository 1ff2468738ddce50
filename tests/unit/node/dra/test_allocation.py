"""From a ResourceClaim to a claim of this machine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.node.apiserver import NODE, resource_claim, result, share_config
from tests.unit.node.claimed import CARD, GIB, SECOND_CARD, facts
from vcuda.node.dra.allocation import Allocation, read_allocation
from vcuda.node.errors import Conflict, Invalid, NodeError

CARDS = [facts(), facts(SECOND_CARD, 1)]


def read(found: dict[str, Any], uid: str = "u") -> Allocation:
    return read_allocation(found, uid=uid, pool=NODE, cards=CARDS, account=(0, 0))


def test_consumed_capacity_becomes_bytes_and_per_mille() -> None:
    allocation = read(resource_claim("u", parameters=share_config(ceiling=700, priority=-5)))
    (part,) = allocation.claim.parts
    assert (part.uuid, part.memory, part.compute, part.ceiling, part.priority) == (CARD, 8 * GIB, 300, 700, -5)
    assert (allocation.claim.name, allocation.claim.contained) == ("u", True)
    (granted,) = allocation.granted
    assert (granted.requests, granted.pool, granted.device, granted.share_id) == (("gpu",), NODE, "gpu-0", "share-1")


def test_without_capacities_it_is_the_whole_card() -> None:
    found = result()
    del found["consumedCapacity"], found["shareID"]
    allocation = read(resource_claim("u", results=[found]))
    (part,) = allocation.claim.parts
    assert (part.memory, part.compute, part.ceiling) == (CARDS[0].allocatable, 1000, 1000)
    assert part.exclusive
    assert allocation.granted[0].share_id is None


def test_several_devices_are_several_parts() -> None:
    allocation = read(
        resource_claim("u", results=[result(), result("gpu-1", share="share-2", memory="4Gi", compute="100")])
    )
    assert {part.uuid: part.memory for part in allocation.claim.parts} == {CARD: 8 * GIB, SECOND_CARD: 4 * GIB}
    assert [granted.share_id for granted in allocation.granted] == ["share-1", "share-2"]


def test_two_shares_of_one_card_are_one_part_and_two_devices_of_the_answer() -> None:
    allocation = read(
        resource_claim("u", results=[result(), result(share="share-2")], parameters=share_config(ceiling=400))
    )
    (part,) = allocation.claim.parts
    assert (part.memory, part.compute, part.ceiling) == (16 * GIB, 600, 600)
    assert [granted.share_id for granted in allocation.granted] == ["share-1", "share-2"]


def test_devices_of_other_drivers_are_not_ours() -> None:
    foreign = result("nic-0") | {"driver": "net.example.com"}
    assert len(read(resource_claim("u", results=[foreign, result()])).granted) == 1
    with pytest.raises(Conflict) as refusal:
        read(resource_claim("u", results=[foreign]))
    assert refusal.value.code == "not_allocated"


def test_parameters_of_the_claim_override_those_of_the_class_and_count_for_their_requests_only() -> None:
    found = resource_claim("u", results=[result(request="a"), result("gpu-1", request="b/big", share="s2")])
    found["status"]["allocation"]["devices"]["config"] = [
        {
            "source": "FromClass",
            "opaque": {"driver": "gpu.tessera.dev", "parameters": share_config(ceiling=500, priority=1)},
        },
        {
            "source": "FromClaim",
            "requests": ["b"],
            "opaque": {"driver": "gpu.tessera.dev", "parameters": share_config(ceiling=900)},
        },
        {"source": "FromClaim", "requests": ["a"], "opaque": {"driver": "other", "parameters": {"anything": 1}}},
    ]
    parts = {part.uuid: part for part in read(found).claim.parts}
    assert (parts[CARD].ceiling, parts[CARD].priority) == (500, 1)
    assert (parts[SECOND_CARD].ceiling, parts[SECOND_CARD].priority) == (900, 1)


@pytest.mark.parametrize(
    "parameters",
    [
        {"apiVersion": "tessera.dev/v2", "kind": "ShareConfig"},
        {"apiVersion": "tessera.dev/v1", "kind": "Other"},
        share_config(celling=700),
        share_config(ceiling=0),
        share_config(ceiling=1001),
        share_config(ceiling="700"),
        share_config(ceiling=True),
        share_config(priority=5000),
        "text",
    ],
)
def test_parameters_that_are_not_understood_are_refused(parameters: Any) -> None:
    with pytest.raises(Invalid):
        read(resource_claim("u", parameters=parameters))


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (resource_claim("another"), "claim_replaced"),
        ({"metadata": {"uid": "u"}}, "not_allocated"),
        ({"metadata": {"uid": "u"}, "status": {"allocation": None}}, "not_allocated"),
        (resource_claim("u", results=[result() | {"pool": "node-2"}]), "other_node"),
        (resource_claim("u", results=[result("gpu-7")]), "no_such_card"),
        (resource_claim("u", results=[result() | {"adminAccess": True}]), "no_admin_access"),
        (resource_claim("u", results=[result(memory="lots", compute="1")]), "invalid_input"),
        (resource_claim("u", results=[result(memory="8Gi", compute="1001")]), "invalid_input"),
    ],
)
def test_what_cannot_be_is_refused_with_a_code(found: dict[str, Any], code: str) -> None:
    with pytest.raises(NodeError) as refusal:
        read(found)
    assert refusal.value.code == code

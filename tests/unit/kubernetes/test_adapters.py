"""Slice adapters: the words of each for a share, what each refuses and names instead, and which one a cluster gets."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.drivers.kubernetes import manifests, names
from apps.cluster.drivers.kubernetes.adapters import Offers, choose
from apps.cluster.drivers.kubernetes.adapters.base import SliceAdapter
from apps.cluster.drivers.kubernetes.adapters.device_plugin import DevicePlugin
from apps.cluster.drivers.kubernetes.adapters.dra import Dra
from apps.cluster.drivers.kubernetes.adapters.hami import NODE_CARDS, POD_CARDS, Hami
from apps.core.errors import InvalidInput, NeverFits
from apps.core.reason_texts import CATALOGUE
from apps.core.share import GIB, MIB, GpuShare, Resources
from tests.unit.kubernetes.made import RULES, THIRD, WHOLE, device, node, pod, slice_, spec


def limits(adapter: SliceAdapter, share: GpuShare) -> dict[str, str]:
    made_of = spec(resources=Resources(share, 1000, GIB))
    adapter.check(share)
    made = manifests.pod(made_of, RULES, "image", adapter.slice(made_of), adapter.name)
    return {key: value for key, value in made["spec"]["containers"][0]["resources"]["limits"].items() if "/" in key}


def nearest(adapter: SliceAdapter, share: GpuShare) -> dict[str, Any]:
    with pytest.raises(NeverFits) as refused:
        adapter.check(share)
    assert refused.value.code in CATALOGUE
    found: dict[str, Any] = refused.value.evidence["nearest"]
    assert "nearest choice" in str(refused.value.message)
    return found


# --- Claims --------------------------------------------------------------------------------------------------------------
def claim_spec(share: GpuShare) -> dict[str, Any]:
    (claim,) = Dra().slice(spec(resources=Resources(share, 1000, GIB))).objects
    found: dict[str, Any] = claim["spec"]
    return found


def test_a_part_of_a_card_is_a_claim_with_capacity() -> None:
    assert claim_spec(THIRD) == {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu.tessera.dev",
                        "count": 1,
                        "capacity": {"requests": {"memory": "8Gi", "compute": "300"}},
                    },
                }
            ],
            "config": [
                {
                    "requests": ["gpu"],
                    "opaque": {
                        "driver": "gpu.tessera.dev",
                        "parameters": {
                            "apiVersion": "tessera.dev/v1",
                            "kind": "ShareConfig",
                            "ceiling": 700,
                            "priority": 0,
                        },
                    },
                }
            ],
        }
    }


def test_whole_cards_name_no_capacity_and_are_equal_and_different() -> None:
    devices = claim_spec(WHOLE)["devices"]
    assert devices["requests"] == [{"name": "gpu", "exactly": {"deviceClassName": "gpu.tessera.dev", "count": 2}}]
    assert devices["constraints"] == [
        {"requests": ["gpu"], "matchAttribute": "gpu.tessera.dev/model"},
        {"requests": ["gpu"], "distinctAttribute": "gpu.tessera.dev/uuid"},
    ]
    assert limits(Dra(), WHOLE) == {}


def test_without_consumable_capacity_there_are_whole_cards_only() -> None:
    adapter = Dra(fractions=False)
    adapter.check(WHOLE)
    assert nearest(adapter, THIRD) == {"count": 1, "memory": 8 * GIB, "compute": 1000, "ceiling": 1000}


# --- HAMi ----------------------------------------------------------------------------------------------------------------
def test_hami_is_asked_in_mebibytes_and_per_cent() -> None:
    assert limits(Hami(), THIRD) == {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30", "nvidia.com/gpumem": "8192"}
    assert limits(Hami(), WHOLE) == {
        "nvidia.com/gpu": "2",
        "nvidia.com/gpucores": "100",
        "nvidia.com/gpumem-percentage": "100",
    }


@given(st.integers(MIB, 80 * GIB), st.integers(1, 999))
def test_hami_takes_what_it_can_express_and_names_the_nearest_otherwise(memory: int, compute: int) -> None:
    share = GpuShare(1, memory, compute, 1000)
    if memory % MIB == 0 and compute % 10 == 0:
        assert limits(Hami(), share)["nvidia.com/gpumem"] == str(memory // MIB)
        return
    near = nearest(Hami(), share)
    assert near["memory"] <= memory < near["memory"] + MIB
    assert compute <= near["compute"] < compute + 10
    Hami().check(GpuShare(**near))


HAMI_OLD = "GPU-a,10,32768,100,NVIDIA-Tesla V100,0,true:GPU-b,10,32768,100,NVIDIA-Tesla V100,0,false:"
HAMI_NEW = (
    '[{"id":"GPU-a","count":10,"devmem":32768,"devcore":100,"type":"NVIDIA-Tesla V100","health":true},'
    '{"id":"GPU-b","count":10,"devmem":32768,"devcore":100,"type":"NVIDIA-Tesla V100","health":false}]'
)


@pytest.mark.parametrize("text", [HAMI_OLD, HAMI_NEW])
def test_hamis_cards_are_read_from_what_it_writes(text: str) -> None:
    there = node("n1")
    there["metadata"]["annotations"] = {NODE_CARDS: text}
    holder = pod(node="n1")
    holder["metadata"]["annotations"][POD_CARDS] = "GPU-a,NVIDIA,8192,30:;"
    first, second = Hami().cards([there], [holder])
    assert (first.uuid, first.model, first.memory, first.healthy) == ("GPU-a", "Tesla V100", 32 * GIB, True)
    assert [(h.uid, h.memory, h.compute) for h in first.holders] == [(spec().uid, 8 * GIB, 300)]
    assert (second.healthy, second.health_reason, second.holders) == (False, "gpu_lost", ())


@pytest.mark.parametrize("text", ["", "[", "[1]", "nonsense", "a,b:", ":::"])
def test_what_hami_did_not_write_is_no_card(text: str) -> None:
    there = node("n1")
    there["metadata"]["annotations"] = {NODE_CARDS: text}
    assert Hami().cards([there], []) == ()


# --- Device plugin -------------------------------------------------------------------------------------------------------
def plugin_node(resources: dict[str, str], **labels: str) -> dict[str, Any]:
    there = node("n1")
    there["status"]["allocatable"] |= resources
    there["metadata"]["labels"] = {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}
    return there


def test_a_device_plugin_gives_whole_cards() -> None:
    adapter = DevicePlugin([plugin_node({"nvidia.com/gpu": "4"}, memory="81920", product="NVIDIA-H100")])
    assert limits(adapter, WHOLE) == {"nvidia.com/gpu": "2"}
    assert nearest(adapter, THIRD) == {"count": 1, "memory": 80 * GIB, "compute": 1000, "ceiling": 1000}


def test_it_gives_the_smallest_mig_slice_that_holds_a_share() -> None:
    there = plugin_node(
        {"nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-2g.20gb.me": "1"}
    )
    adapter = DevicePlugin([there])
    assert limits(adapter, GpuShare(1, 8 * GIB, 140, 140)) == {"nvidia.com/mig-1g.10gb": "1"}
    assert limits(adapter, GpuShare(2, 20 * GIB, 400, 400)) == {"nvidia.com/mig-3g.40gb": "2"}
    assert nearest(adapter, GpuShare(1, 30 * GIB, 200, 200)) == {
        "count": 1,
        "memory": 40 * GIB,
        "compute": 428,
        "ceiling": 428,
    }


def test_it_gives_replicas_and_says_that_they_limit_nothing() -> None:
    adapter = DevicePlugin([plugin_node({"nvidia.com/gpu": "8"}, memory="81920", replicas="4")])
    assert limits(adapter, GpuShare(1, 20 * GIB, 250, 1000)) == {"nvidia.com/gpu": "1"}
    assert nearest(adapter, GpuShare(1, 20 * GIB, 100, 1000))["compute"] == 250
    assert "plugin_replicas_unlimited" in adapter.cannot


def test_its_cards_are_filled_in_order() -> None:
    there = plugin_node({"nvidia.com/gpu": "4"}, memory="81920", replicas="2", product="H100")
    adapter = DevicePlugin([there])
    pods = []
    for uid in ("a", "b", "c"):
        made_of = spec(uid=uid, resources=Resources(GpuShare(1, 40 * GIB, 500, 500), 1000, GIB))
        pods.append(pod(made_of, adapter=adapter, node="n1"))
    first, second = adapter.cards([there], pods)
    assert ([h.uid for h in first.holders], [h.uid for h in second.holders]) == (["a", "b"], ["c"])
    assert (first.memory, first.free_memory, second.free_compute) == (80 * GIB, 0, 500)


def test_cards_of_unknown_size_are_given_to_nobody() -> None:
    there = plugin_node({"nvidia.com/gpu": "1"})
    (card,) = DevicePlugin([there]).cards([there], [])
    assert (card.healthy, card.health_reason) == (False, "gpu_memory_unknown")
    with pytest.raises(NeverFits):
        DevicePlugin([there]).check(WHOLE)


# --- Which one -----------------------------------------------------------------------------------------------------------
def hami_node() -> dict[str, Any]:
    there = plugin_node({"nvidia.com/gpu": "10"})
    there["metadata"]["annotations"] = {NODE_CARDS: HAMI_OLD}
    return there


CLASS = (names.DRIVER,)
PLUGIN = plugin_node({"nvidia.com/gpu": "1"}, memory="81920")


@pytest.mark.parametrize(
    ("offers", "adapter", "reason"),
    [
        (Offers(True, CLASS, [slice_(device(0))], [node()]), "dra", "slices_dra"),
        (Offers(True, CLASS, [], [node()]), "dra", "slices_dra"),
        (Offers(True, CLASS, [slice_(device(0, allowMultipleAllocations=None))], []), "dra", "slices_whole_only"),
        (Offers(True, ("gpu.example.com",), [], [hami_node()]), "hami", "slices_hami"),
        (Offers(False, (), [], [hami_node()]), "hami", "slices_hami"),
        (Offers(False, (), [], [PLUGIN]), "device-plugin", "slices_device_plugin"),
        (Offers(True, (), [], [node()]), "dra", "slices_none"),
    ],
)
def test_a_cluster_gets_the_best_adapter_that_it_can_use(offers: Offers, adapter: str, reason: str) -> None:
    choice = choose(offers)
    assert (choice.adapter.name, choice.reason) == (adapter, reason)
    assert all(code in CATALOGUE for code in choice.notes)


def test_an_operators_choice_comes_first() -> None:
    offers = Offers(True, CLASS, [slice_(device(0))], [hami_node()])
    assert choose(offers, "hami").adapter.name == "hami"
    assert choose(offers, "device-plugin").reason == "slices_by_setting"
    with pytest.raises(InvalidInput, match="known are dra, hami, device-plugin"):
        choose(offers, "magic")


def test_refusals_say_what_was_asked() -> None:
    with pytest.raises(NeverFits) as refused:
        Dra(fractions=False).check(replace(THIRD, compute=301))
    assert refused.value.evidence["asked_permille"] == 301

"""Limits of a claim in use: what is asked of it, what is kept, what counts as done, and what of it a lost database gets back."""

import json
from typing import Any

import pytest

from apps.cluster.drivers.kubernetes import cards, names, resizing
from apps.cluster.drivers.kubernetes.api import ClusterUnavailable
from apps.cluster.drivers.kubernetes.compare import Objects
from apps.core.errors import Conflict
from apps.core.share import GIB, GpuShare
from tests.unit.kubernetes.made import claim, spec
from tests.unit.kubernetes.test_compare import compare, live, row

GIVEN = ("gpu-0", "8Gi", "300")
SMALLER = GpuShare(1, 2 * GIB, 300, 900)


def limited(text: str) -> dict[str, Any]:
    made = claim(spec(), GIVEN)
    made["metadata"]["annotations"] = {names.LIMITS: text}
    return made


def test_what_is_kept_is_the_allocation_with_the_new_ceiling() -> None:
    assert resizing.kept(claim(spec(), GIVEN), SMALLER) == GpuShare(1, 8 * GIB, 300, 900)


@pytest.mark.parametrize(
    ("share", "code"),
    [
        (GpuShare(1, 9 * GIB, 300, 300), "resize_claim"),
        (GpuShare(1, 8 * GIB, 200, 300), "resize_claim"),
        (GpuShare(2, 4 * GIB, 300, 300), "resize_not_offered"),
        (GpuShare(1, 8 * GIB, 1000, 1000), "resize_not_offered"),
    ],
)
def test_beyond_the_allocation_it_is_refused(share: GpuShare, code: str) -> None:
    with pytest.raises(Conflict) as refusal:
        resizing.kept(claim(spec(), GIVEN), share)
    assert refusal.value.code == code


def test_a_whole_card_and_what_is_not_allocated_have_no_limits() -> None:
    for made in (claim(spec(), ("gpu-0", None, None)), claim(spec())):
        with pytest.raises(Conflict):
            resizing.kept(made, SMALLER)


def test_only_what_the_agent_has_read_back_is_in_force() -> None:
    device = {"memory": 2 * GIB, "compute": 300, "ceiling": 900}
    resizing.check([device], SMALLER)
    for found in ([], [device | {"memory": 8 * GIB}], [device | {"ceiling": 300}], [device, device]):
        with pytest.raises(ClusterUnavailable):
            resizing.check(found, SMALLER)


def test_a_spec_is_told_with_the_limits_of_now_and_never_with_more_than_it_began_with() -> None:
    def share_with(text: str) -> GpuShare:
        found = resizing.as_it_is(spec(), [limited(text)]).resources.gpu
        assert found is not None
        return found

    began = spec().resources.gpu
    assert began is not None
    assert share_with(resizing.annotation(SMALLER)[names.LIMITS]) == SMALLER
    assert share_with(json.dumps({"memory": 99 * GIB})).memory == began.memory
    for nonsense in ("", "[]", '{"memory": "2Gi"}', '{"memory": true, "ceiling": -1}'):
        assert share_with(nonsense) == began
    assert resizing.as_it_is(spec(), []) == spec()


def test_a_part_shows_what_it_holds_and_what_of_it_may_be_used() -> None:
    (part,) = cards.parts_of(limited(resizing.annotation(SMALLER)[names.LIMITS]))
    assert (part.memory, part.limit, part.compute, part.ceiling) == (8 * GIB, 2 * GIB, 300, 900)


def test_a_share_that_was_made_smaller_is_no_difference_to_the_ledger() -> None:
    small = row(resources=resizing.as_it_is(spec(), [limited(resizing.annotation(SMALLER)[names.LIMITS])]).resources)
    claims = [limited(resizing.annotation(SMALLER)[names.LIMITS])]
    assert compare([small], Objects(pods=[live()], claims=claims)) == ()
    assert len(compare([row()], Objects(pods=[live()], claims=claims))) == 1, (
        "the ledger says that all of it may be used"
    )

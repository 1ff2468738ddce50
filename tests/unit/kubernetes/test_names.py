"""Names in the cluster: valid for Kubernetes whatever they are made from, and never shared by two things."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.drivers.kubernetes import names

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
uids = st.one_of(st.uuids().map(str), st.text(max_size=80), st.from_regex(r"x[0-9a-f]{32}", fullmatch=True))
runs = st.integers(1, 10**6)


def test_a_uuid_is_its_own_key_so_that_people_can_search_for_it() -> None:
    uid = "0199f6a4-5b5a-7c3e-8a52-0d6c1b2a3f4e"
    assert names.run_name(uid, 3) == f"w-{uid}-3"
    assert names.service_name(uid) == f"w-{uid}"
    assert names.namespace_of("tessera", "lab") == "tessera-lab"


@given(uids, runs)
def test_every_name_is_a_dns_label_and_every_key_a_labels_value(uid: str, run: int) -> None:
    for name in (names.run_name(uid, run), names.service_name(uid), names.volume_name(uid)):
        assert DNS_LABEL.fullmatch(name), name
    for value in (names.key_of(uid), names.label_value(uid)):
        assert LABEL_VALUE.fullmatch(value), value


@given(uids, runs, uids, runs)
def test_different_runs_never_share_a_name(uid: str, run: int, other: str, later: int) -> None:
    assert (names.run_name(uid, run) == names.run_name(other, later)) == ((uid, run) == (other, later))
    assert (names.service_name(uid) == names.service_name(other)) == (uid == other)


@given(st.text(max_size=80), st.text(max_size=80), st.sampled_from(["tessera", "lab-portal"]))
def test_different_tenants_never_share_a_namespace(one: str, other: str, portal: str) -> None:
    first, second = names.namespace_of(portal, one), names.namespace_of(portal, other)
    assert DNS_LABEL.fullmatch(first)
    assert (first == second) == (one == other)


@given(uids)
def test_what_looks_like_a_hash_is_hashed_once_more(uid: str) -> None:
    assert names.key_of(names.key_of(uid)) != names.key_of(uid) or names.key_of(uid) == uid


@pytest.mark.parametrize("slug", ["system", "System", "a_b", "UPPER", "", "-x", "x" * 60])
def test_no_tenant_gets_into_a_namespace_that_is_not_a_tenants(slug: str) -> None:
    assert names.namespace_of("tessera", slug) not in (names.AGENT_NAMESPACE, f"tessera-{slug}")

"""The objects of a run: what Kubernetes is told, exactly, and what must hold for every run."""

import base64
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.cluster.drivers.kubernetes import encoding, manifests, names, tenancy
from apps.cluster.drivers.kubernetes.adapters.base import Slice
from apps.cluster.drivers.kubernetes.adapters.dra import Dra
from apps.cluster.drivers.kubernetes.settings import Rules
from apps.cluster.specs import RunSpec, Volume
from apps.core.share import GIB, MIB, GpuShare, Resources
from tests.unit.kubernetes.made import RULES, UID, pod, spec


def container(made_of: RunSpec, rules: Rules = RULES) -> dict[str, Any]:
    part = Dra().slice(made_of) if made_of.resources.gpu else Slice()
    one: dict[str, Any]
    (one,) = manifests.pod(made_of, rules, "image", part, "dra")["spec"]["containers"]
    return one


def test_a_pod_is_written_down_exactly() -> None:
    made = manifests.pod(spec(), RULES, "registry.example/notebook:1", Dra().slice(spec()), "dra")
    annotations = made["metadata"].pop("annotations")
    assert made["metadata"] == {
        "name": f"w-{UID}-1",
        "namespace": "tessera-lab",
        "labels": {
            "app.kubernetes.io/managed-by": "tessera",
            "tessera.dev/portal": "tessera",
            "tessera.dev/workload": UID,
            "tessera.dev/run": "1",
            "tessera.dev/tenant": "lab",
            "tessera.dev/kind": "experiment",
        },
    }
    assert annotations[names.NAME] == "量子 training"
    assert annotations[names.OWNER] == "ada"
    (one,) = made["spec"].pop("containers")
    assert made["spec"] == {
        "restartPolicy": "Never",
        "serviceAccountName": "tessera-workload",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": 10,
        "hostname": "training-abc",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"w-{UID}-1"}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "10Gi"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
            {"name": "volume-0", "persistentVolumeClaim": {"claimName": names.volume_name("home-1")}},
        ],
    }
    assert one.pop("env")
    assert one == {
        "name": "main",
        "image": "registry.example/notebook:1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["tessera-notebook"],
        "workingDir": "/home/tessera",
        "envFrom": [{"secretRef": {"name": f"w-{UID}-1"}}],
        "ports": [{"name": "http", "containerPort": 8888}],
        "resources": {
            "requests": {"cpu": "500m", "memory": "4Gi"},
            "limits": {"cpu": "2", "memory": "4Gi"},
            "claims": [{"name": "gpu"}],
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "volume-0", "mountPath": "/home/tessera"},
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def test_secrets_are_in_the_secret_alone() -> None:
    secret = manifests.secret(spec(), RULES, "a-token")
    assert base64.b64decode(secret["data"]["SECRET"]) == b"swordfish"
    assert base64.b64decode(secret["data"]["TESSERA_TOKEN"]) == b"a-token"
    assert manifests.token_in(secret) == "a-token"
    assert secret["immutable"]
    everything = json.dumps(
        [pod(), manifests.service(spec(), RULES), manifests.volume(spec(), RULES, spec().volumes[0])]
    )
    assert "swordfish" not in everything
    assert "a-token" not in everything


def test_a_claim_says_whose_it_is() -> None:
    (claim,) = manifests.slice_objects(spec(), RULES, Dra().slice(spec()))
    assert claim["metadata"]["name"] == f"w-{UID}-1"
    assert claim["metadata"]["labels"] == manifests.labels(spec(), RULES)


def test_a_run_without_a_gpu_is_told_of_none_and_tolerates_nothing() -> None:
    made_of = spec(resources=Resources(gpu=None, cpu_milli=500, ram=GIB))
    variables = {one["name"]: one["value"] for one in container(made_of)["env"]}
    assert variables["CUDA_VISIBLE_DEVICES"] == ""
    assert "claims" not in container(made_of)["resources"]
    made = manifests.pod(made_of, RULES, "image", Slice(), "dra")
    assert "resourceClaims" not in made["spec"]
    assert "tolerations" not in made["spec"]


def test_volumes_lie_where_the_spec_says_and_a_home_is_always_there() -> None:
    made_of = spec(volumes=(Volume("data", "/data"), Volume("work", "~/work")))
    mounts = {one["mountPath"]: one["name"] for one in container(made_of)["volumeMounts"]}
    assert mounts == {
        "/tmp": "tmp",
        "/dev/shm": "shm",
        "/home/tessera": "home",
        "/data": "volume-0",
        "/home/tessera/work": "volume-1",
    }


def test_rules_of_the_administrator_are_kept() -> None:
    rules = replace(
        RULES,
        storage_class="fast",
        volume_bytes=GIB,
        pull_secrets=("pull",),
        priority_class="low",
        cpu_request_permille=1000,
    )
    claim = manifests.volume(spec(), rules, Volume("home-1", "~"))
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }
    made = manifests.pod(spec(), rules, "image", Dra().slice(spec()), "dra")["spec"]
    assert made["imagePullSecrets"] == [{"name": "pull"}]
    assert made["priorityClassName"] == "low"
    assert container(spec(), rules)["resources"]["requests"]["cpu"] == "2"


@pytest.mark.parametrize(
    ("environment", "image"),
    [
        ("notebook", "registry.example/notebook:1"),
        ("registry.example/own:2", "registry.example/own:2"),
        ("no-such", None),
    ],
)
def test_an_environment_is_an_image_that_was_named_or_none(environment: str, image: str | None) -> None:
    assert RULES.image(environment) == image


def test_a_service_follows_the_workload_over_its_runs() -> None:
    made = manifests.service(spec(run=7), RULES)
    assert made["metadata"]["name"] == f"w-{UID}"
    assert made["spec"]["selector"] == {"tessera.dev/portal": "tessera", "tessera.dev/workload": UID}
    assert made["spec"]["clusterIP"] == "None"
    assert names.RUN not in made["metadata"]["labels"]


# --- For every run -------------------------------------------------------------------------------------------------------
texts = st.text(max_size=30)
shares = st.builds(
    lambda count, memory, compute, more: GpuShare(count, memory * MIB, compute, min(1000, compute + more)),
    st.integers(1, 8), st.integers(1, 80 * 1024), st.integers(1, 1000), st.integers(0, 500),
)  # fmt: skip
specs = st.builds(
    lambda uid, run, name, slug, tenant, owner, gpu, cpu, ram, env: spec(
        uid=uid, run=run, name=name, slug=slug, tenant=tenant, owner=owner, labels={"tenant": tenant, "owner": owner},
        resources=Resources(gpu, cpu, ram), env=env,
    ),
    st.one_of(st.uuids().map(str), texts), st.integers(1, 10**4), texts, texts, texts, texts,
    st.one_of(st.none(), shares), st.integers(1, 64_000), st.integers(MIB, 512 * GIB),
    st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), texts, max_size=3),
)  # fmt: skip
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@settings(deadline=None)
@given(specs)
def test_every_run_makes_objects_that_kubernetes_takes_and_that_tell_all_of_it(made_of: RunSpec) -> None:
    made = pod(made_of)
    for value in made["metadata"]["labels"].values():
        assert LABEL_VALUE.fullmatch(value), value
    told = encoding.from_json(made["metadata"]["annotations"][names.SPEC])
    assert told == replace(made_of, env={})
    assert all(isinstance(value, str) for value in made["metadata"]["annotations"].values())
    assert made["metadata"]["annotations"].get(names.UID, made["metadata"]["labels"][names.WORKLOAD]) == made_of.uid
    for variable in made["spec"]["containers"][0]["env"]:
        assert "$(" not in variable["value"].replace("$$(", "")
    json.dumps(made)


@settings(deadline=None)
@given(specs)
def test_the_same_run_gives_the_same_objects(made_of: RunSpec) -> None:
    again = replace(made_of, env=dict(made_of.env), labels=dict(made_of.labels))
    assert pod(made_of) == pod(again)
    assert encoding.hash_of(made_of) == encoding.hash_of(again)


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"uid": 1}', "no json"])
def test_what_is_no_spec_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        encoding.from_json(text)


# --- A tenant's namespace ------------------------------------------------------------------------------------------------
def test_a_tenants_namespace_lets_nobody_in_but_the_gateway() -> None:
    rules = replace(RULES, ingress_cidrs=("10.1.0.0/16",))
    found = {thing["kind"]: thing for thing in tenancy.contents(rules, "lab")}
    assert found.keys() == {"ServiceAccount", "NetworkPolicy", "ResourceQuota", "LimitRange"}
    assert all(thing["metadata"]["namespace"] == "tessera-lab" for thing in found.values())
    assert found["NetworkPolicy"]["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tessera-system"}}},
                    {"ipBlock": {"cidr": "10.1.0.0/16"}},
                ]
            }
        ],
    }
    closed = tenancy.contents(replace(RULES, ingress_namespaces=()), "lab")
    assert next(one for one in closed if one["kind"] == "NetworkPolicy")["spec"]["ingress"] == []
    assert found["ServiceAccount"]["automountServiceAccountToken"] is False
    namespace = tenancy.namespace(rules, "lab")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_portals_own_rights_in_it_come_first() -> None:
    rules = replace(RULES, tenant_role="tessera-tenant")
    first, *_ = tenancy.contents(rules, "lab")
    assert first["kind"] == "RoleBinding"
    assert first["roleRef"]["name"] == "tessera-tenant"
    assert first["subjects"] == [{"kind": "ServiceAccount", "name": "tessera", "namespace": "tessera-system"}]


def test_other_rules_make_a_namespace_be_set_up_anew() -> None:
    assert tenancy.setup_hash(RULES, "lab") == tenancy.setup_hash(RULES, "lab")
    assert tenancy.setup_hash(RULES, "lab") != tenancy.setup_hash(replace(RULES, backstop={"pods": "1"}), "lab")
    assert names.SETUP not in tenancy.namespace(RULES, "lab")["metadata"]["annotations"]
    assert tenancy.namespace(RULES, "lab", setup="x")["metadata"]["annotations"][names.SETUP] == "x"

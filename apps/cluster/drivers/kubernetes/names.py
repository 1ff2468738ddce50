"""What things are called in the cluster. Everything is derived from ids, so that a create that timed out meets its own object.

People's names may be in any script; they live in annotations. Names and labels take what is a DNS label already, and a hash of
everything else: two different ids never share a name.
"""

import hashlib
import re
from collections.abc import Mapping

DOMAIN = "tessera.dev"
DRIVER = f"gpu.{DOMAIN}"  # of the cards, and the name of their DeviceClass
WAKING = f"waking.{DOMAIN}"  # a DeviceClass that nobody asks for; its changes wake the scheduler (waiting.py)
FIELD_MANAGER = "tessera"

MANAGED_BY = "app.kubernetes.io/managed-by"
PORTAL = f"{DOMAIN}/portal"
WORKLOAD = f"{DOMAIN}/workload"
RUN = f"{DOMAIN}/run"
TENANT = f"{DOMAIN}/tenant"
KIND = f"{DOMAIN}/kind"

NAME = f"{DOMAIN}/name"
OWNER = f"{DOMAIN}/owner"
SPEC = f"{DOMAIN}/spec"
SPEC_HASH = f"{DOMAIN}/spec-hash"
UID = f"{DOMAIN}/uid"  # only where the label could not bear it
VOLUME = f"{DOMAIN}/volume"  # the portal's key of a volume
SETUP = f"{DOMAIN}/setup"  # on a namespace: the hash of what was put into it
READY = f"{DOMAIN}/ready"  # on a pod: when it answered for the first time
WOKEN = f"{DOMAIN}/woken"  # on the class that wakes: when it did
PRODDED = f"{DOMAIN}/prodded"  # on a pod: when the kubelet was made to look at it again
LIMITS = f"{DOMAIN}/limits"  # on a claim: how much of it may be used now; the node agent obeys it
SLICES = f"{DOMAIN}/slices"  # on a pod: the adapter that cut its share

AGENT_NAMESPACE = "tessera-system"
AGENT_LABEL = "app.kubernetes.io/name=tessera-node-agent"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HASHED = re.compile(r"x[0-9a-f]{32}")
_LONGEST_KEY = 40  # of a workload's uid as a part of names; a UUID has 36
_LONGEST_LABEL = 63
_RESERVED = frozenset({"system"})  # namespaces of Tessera's own beside those of tenants


def _hash(text: str) -> str:
    return "x" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def key_of(uid: str) -> str:
    """`uid` as a label's value and a part of names."""
    plain = _LABEL.fullmatch(uid) and len(uid) <= _LONGEST_KEY and not _HASHED.fullmatch(uid)
    return uid if plain else _hash(uid)


def run_name(uid: str, run: int) -> str:
    """Of a run's pod, secret and claim."""
    return f"w-{key_of(uid)}-{run}"


def service_name(uid: str) -> str:
    return f"w-{key_of(uid)}"


def volume_name(volume: str) -> str:
    return f"v-{hashlib.sha256(volume.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def namespace_of(portal: str, tenant: str) -> str:
    """`<portal>-<slug>` where the slug is a DNS label."""
    plain = f"{portal}-{tenant}"
    if _LABEL.fullmatch(tenant) and len(plain) <= _LONGEST_LABEL and tenant not in _RESERVED:
        return plain if not _HASHED.fullmatch(tenant) else f"{portal}-{_hash(tenant)}"
    return f"{portal}-{_hash(tenant)}"


def label_value(text: str) -> str:
    """`text` where it is a plain label, else a hash: to select by, not to read."""
    return text if _LABEL.fullmatch(text) and len(text) <= _LONGEST_LABEL else _hash(text)


def portal_labels(portal: str) -> dict[str, str]:
    return {MANAGED_BY: "tessera", PORTAL: portal}


def selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

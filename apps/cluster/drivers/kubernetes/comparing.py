"""One look at everything that can hold a part of a card, and the removal of what should not be there. For operators.

It needs no driver that was started, and writes nothing but the deletion of what it has seen: by uid, so that another object that has
taken the name meanwhile stays.
"""

from collections.abc import Iterable, Sequence

from apps.cluster.differences import Difference, Row
from apps.cluster.drivers.kubernetes import kinds, names
from apps.cluster.drivers.kubernetes.api import Api, ApiError
from apps.cluster.drivers.kubernetes.compare import Objects, compare
from apps.cluster.drivers.kubernetes.kinds import Resource
from apps.cluster.drivers.kubernetes.objects import Manifest, id_of, name_of, namespace_of, spec, workload_of
from apps.cluster.drivers.kubernetes.reading import Reader
from apps.cluster.drivers.kubernetes.rebuild import rebuild
from apps.cluster.drivers.kubernetes.settings import Rules, Timing
from apps.cluster.specs import RunSpec
from apps.core import clock

_KINDS = {one.kind: one for one in (kinds.PODS, kinds.CLAIMS, kinds.SECRETS)}


class Comparer:
    def __init__(self, reader: Reader, rules: Rules, timing: Timing) -> None:
        self._reader, self._timing = reader, timing
        self._mine = {"labelSelector": names.selector(names.portal_labels(rules.portal))}

    async def look(self) -> Objects:
        async with self._reader.api() as api:
            claims = await self._served(api, kinds.CLAIMS)
            pods = await api.find(kinds.PODS, params=self._mine)
            secrets: list[Manifest] = []
            # Namespace by namespace: elsewhere the portal may not read secrets.
            for place in await api.find(kinds.NAMESPACES, params=self._mine):
                where = name_of(place)
                secrets += await api.find(kinds.SECRETS, where, params=self._mine, metadata_only=True)
        return Objects(pods=pods, claims=claims or (), secrets=secrets)

    async def _served(self, api: Api, resource: Resource) -> list[Manifest] | None:
        """None where the API server does not know this kind."""
        try:
            return await api.find(resource)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def workloads(self, seen: Objects) -> set[str]:
        return {workload_of(pod) for pod in seen.pods}

    def differences(self, rows: Iterable[Row], seen: Objects) -> Sequence[Difference]:
        return compare(rows, seen, clock.now(), self._timing)

    def spec(self, seen: Objects, uid: str) -> RunSpec | None:
        return next((found.spec for found in rebuild(seen.pods).workloads if found.uid == uid), None)

    async def remove(self, seen: Objects, difference: Difference) -> None:
        async with self._reader.api() as api:
            for thing, resource in _things(seen):
                if f"{resource.kind} {namespace_of(thing)}/{name_of(thing)}" in difference.objects:
                    grace = (
                        int(spec(thing).get("terminationGracePeriodSeconds") or 1) if resource is kinds.PODS else None
                    )
                    where, name = namespace_of(thing), name_of(thing)
                    await api.delete(resource, where, name, uid=id_of(thing), grace_seconds=grace)


def _things(seen: Objects) -> Iterable[tuple[Manifest, Resource]]:
    for kind, things in (
        ("Pod", seen.pods),
        ("ResourceClaim", seen.claims),
        ("Secret", seen.secrets),
    ):
        for thing in things:
            yield thing, _KINDS[kind]

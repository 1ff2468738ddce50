"""Makes the objects of a run, the pod last: where there is a pod, everything that it needs was there before it.

Killed anywhere in between and asked again, it goes on to the same end. What may change with a release is applied; what is never
changed once made (secret, claim, pod) is created, and one of that name from an earlier attempt of ours is taken as it is.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from apps.cluster.drivers.kubernetes import manifests, names, tenancy
from apps.cluster.drivers.kubernetes.adapters import Slice, SliceAdapter
from apps.cluster.drivers.kubernetes.api import Api, ApiError, ClusterUnavailable
from apps.cluster.drivers.kubernetes.kinds import CLAIMS, NAMESPACES, PODS, SECRETS, SERVICES, Resource, resource_of
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    annotations,
    id_of,
    is_deleting,
    is_terminal,
    labels,
    name_of,
    namespace_of,
)
from apps.cluster.drivers.kubernetes.settings import Rules
from apps.cluster.drivers.kubernetes.world import World
from apps.cluster.specs import RunSpec
from apps.core.errors import Conflict, InvalidInput, PortalError

log = structlog.get_logger(__name__)

Absorb = Callable[[Manifest], None]


class NoImage(PortalError):
    code = "environment_missing"


class Maker:
    def __init__(self, api: Api, rules: Rules, world: World, absorb: Absorb) -> None:
        """`absorb` is told of every object that was made and that somebody watches."""
        self._api, self._rules, self._world, self._absorb = api, rules, world, absorb
        self._tenants: dict[str, asyncio.Lock] = {}
        self.tokens: dict[str, str] = {}  # of runs that were begun here, by the name of their secret

    async def make(self, spec: RunSpec, adapter: SliceAdapter) -> Manifest:
        """The pod. Raises PortalError for what can never be made, or cannot be made now."""
        image = self._rules.image(spec.environment)
        if image is None:
            message = f"No image is known for the environment “{spec.environment}”."
            raise NoImage(message, evidence={"environment": spec.environment, "command": spec.command[0]})
        part = Slice()
        if spec.resources.gpu is not None:
            adapter.check(spec.resources.gpu)
            part = adapter.slice(spec)
        await self._tenant(spec)
        before = [self._volumes(spec), self._secret(spec)]
        before += [self._made(spec, thing) for thing in manifests.slice_objects(spec, self._rules, part)]
        if self._rules.services and spec.ports:
            before.append(self._served(spec))
        await _all(before)
        pod = await self._create(spec, manifests.pod(spec, self._rules, image, part, adapter.name))
        self._absorb(pod)
        return pod

    async def _made(self, spec: RunSpec, thing: Manifest) -> None:
        await self._create(spec, thing)

    async def _served(self, spec: RunSpec) -> None:
        await self._applied(manifests.service(spec, self._rules))

    async def _create(self, spec: RunSpec, thing: Manifest) -> Manifest:
        try:
            return await self._api.create(thing)
        except ApiError as error:
            if not error.exists:
                raise refusal(error) from error
        return await self._earlier(spec, thing)

    async def _earlier(self, spec: RunSpec, thing: Manifest) -> Manifest:
        """Of our own, whose answer never came; anybody else's is in the way."""
        where, name = thing["metadata"]["namespace"], thing["metadata"]["name"]
        found = await self._api.get(resource_of(thing), where, name)
        if found is None:
            raise ClusterUnavailable(
                f"{thing['kind']} {name} was there and is no more; it is made at the next attempt."
            )
        wanted = manifests.labels(spec, self._rules)
        if any(labels(found).get(key) != wanted[key] for key in (names.PORTAL, names.WORKLOAD, names.RUN)):
            raise Conflict(f"{thing['kind']} {name} in {where} belongs to somebody else.")
        if is_deleting(found) and thing["kind"] != "Pod":
            raise ClusterUnavailable(f"{thing['kind']} {name} is just being removed; it is made at the next attempt.")
        return found

    # --- Before the pod --------------------------------------------------------------------------------------------------
    async def _tenant(self, spec: RunSpec) -> None:
        tenant = manifests.tenant_of(spec)
        where, wanted = names.namespace_of(self._rules.portal, tenant), tenancy.setup_hash(self._rules, tenant)
        async with self._tenants.setdefault(where, asyncio.Lock()):
            known = self._world.namespaces.get(where)
            if known is not None and is_deleting(known):
                raise ClusterUnavailable(f"The namespace {where} is being removed; nothing can begin in it.")
            if known is not None and annotations(known).get(names.SETUP) == wanted:
                return
            await self._not_foreign(where)
            await self._applied(tenancy.namespace(self._rules, tenant))
            for thing in tenancy.contents(self._rules, tenant):
                await self._applied(thing)
            made = await self._applied(tenancy.namespace(self._rules, tenant, setup=wanted))
            self._absorb(made)

    async def _not_foreign(self, where: str) -> None:
        found = await self._api.get(NAMESPACES, "", where)
        if found is not None and labels(found).get(names.PORTAL) != self._rules.portal:
            raise Conflict(f"The namespace {where} is there and does not belong to this portal.")

    async def _applied(self, thing: Manifest) -> Manifest:
        try:
            return await self._api.apply(thing)
        except ApiError as error:
            raise refusal(error) from error

    async def _volumes(self, spec: RunSpec) -> None:
        for wanted in spec.volumes:
            thing = manifests.volume(spec, self._rules, wanted)
            where, name = thing["metadata"]["namespace"], thing["metadata"]["name"]
            known = self._world.volumes.get((where, name))
            if known is not None and is_deleting(known):
                raise ClusterUnavailable(f"Volume {name} is just being removed; the run begins when it is gone.")
            if known is None:
                self._absorb(await self._made_volume(thing))

    async def _made_volume(self, thing: Manifest) -> Manifest:
        """Created, not applied: what an administrator has made larger stays so."""
        try:
            return await self._api.create(thing)
        except ApiError as error:
            if not error.exists:
                raise refusal(error) from error
        where, name = thing["metadata"]["namespace"], thing["metadata"]["name"]
        found = await self._api.get(resource_of(thing), where, name)
        if found is None or is_deleting(found):
            raise ClusterUnavailable(f"Volume {name} is just being removed; the run begins when it is gone.")
        return found

    async def _secret(self, spec: RunSpec) -> None:
        name, token = names.run_name(spec.uid, spec.run), secrets.token_urlsafe(32)
        found = await self._create(spec, manifests.secret(spec, self._rules, token))
        self.tokens[name] = manifests.token_in(found)

    # --- After the pod ---------------------------------------------------------------------------------------------------
    async def token(self, namespace: str, uid: str, run: int) -> str:
        """Of a run, wherever it was begun. A secret never changes, so it is read once."""
        name = names.run_name(uid, run)
        if name not in self.tokens:
            found = await self._api.get(SECRETS, namespace, name)
            if found is None:
                raise ClusterUnavailable(f"The secret {name} of a run that is there is missing.")
            self.tokens[name] = manifests.token_in(found)
        return self.tokens[name]

    async def tidy(self, namespace: str, uid: str, run: int, *, last: bool) -> None:
        """Remove what a run needed that is no more. `last`: no later run of it is there."""
        name = names.run_name(uid, run)
        self.tokens.pop(name, None)
        doomed: list[tuple[Resource, str]] = [(SECRETS, name)]
        if self._world.claims_served:
            doomed.append((CLAIMS, name))
        if last and self._rules.services:
            doomed.append((SERVICES, names.service_name(uid)))
        for resource, what in doomed:
            await self._api.delete(resource, namespace, what)

    async def remove_pod(self, pod: Manifest, grace_seconds: int) -> None:
        """Ask for its end. A grace of nought would take it off the list while its processes still run: one second is the least."""
        grace = 0 if is_terminal(pod) else max(grace_seconds, 1)
        await self._api.delete(PODS, namespace_of(pod), name_of(pod), uid=id_of(pod), grace_seconds=grace)


async def _all(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """At once, and none goes on when this is over, however it ends; raises the first failure."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def refusal(error: ApiError) -> PortalError:
    """The API server's no, in our words: for now, or for good."""
    evidence = {"problem": error.message}
    if error.status == 403 and "exceeded quota" in error.message:
        return ClusterUnavailable(
            f"The cluster's own quota is used up: {error.message}", code="cluster_quota", evidence=evidence
        )
    if error.status == 403 and "being terminated" in error.message:
        return ClusterUnavailable(error.message, evidence=evidence)
    if error.status in (401, 403) and "violates PodSecurity" not in error.message:
        return ClusterUnavailable(
            f"Tessera may not do this: {error.message}", code="cluster_forbidden", evidence=evidence
        )
    if error.status in (400, 403, 422):
        return InvalidInput(error.message, code="start_failed", evidence=evidence)
    if error.status == 409:
        return Conflict(error.message, evidence=evidence)
    return ClusterUnavailable(f"The API server says {error.status}: {error.message}", evidence=evidence)

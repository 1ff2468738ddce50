"""Where the gateway, the probe and the reader of figures connect: the pod's own address, or a tunnel to it through the API server."""

from collections.abc import Awaitable, Callable

from apps.cluster.drivers.kubernetes import manifests
from apps.cluster.drivers.kubernetes.api import Api, ApiError
from apps.cluster.drivers.kubernetes.making import refusal
from apps.cluster.drivers.kubernetes.objects import Manifest, container, id_of, namespace_of, run_of, status
from apps.cluster.drivers.kubernetes.settings import Rules
from apps.cluster.drivers.kubernetes.tunnels import Tunnels
from apps.cluster.specs import Endpoint, RunSpec
from apps.core.errors import NotFound

Token = Callable[[str, str, int], Awaitable[str]]  # of a run, by namespace, workload, run


class Ways:
    def __init__(self, api: Api, rules: Rules, token: Token, *, forward: bool) -> None:
        """`forward`: pods' addresses cannot be reached from here."""
        self._rules, self._token = rules, token
        self._tunnels = Tunnels(api) if forward else None

    async def endpoint(self, pod: Manifest, spec: RunSpec, port: str) -> Endpoint:
        """Raises NotFound where nothing of the run listens now."""
        number = manifests.port_number(spec, self._rules, port)
        if number is None or not is_reachable(pod):
            raise NotFound(f"Run {spec.uid} has no open port “{port}” now.")
        try:
            token = await self._token(namespace_of(pod), spec.uid, run_of(pod))
        except ApiError as error:
            raise refusal(error) from error
        host, there = await self.address(pod, number)
        return Endpoint(host, there, {"Authorization": f"Bearer {token}"})

    async def address(self, pod: Manifest, port: int) -> tuple[str, int]:
        if self._tunnels is not None:
            return await self._tunnels.to(pod, port)
        return str(status(pod)["podIP"]), port

    def drop(self, pod: Manifest) -> None:
        """The pod is no more."""
        if self._tunnels is not None:
            self._tunnels.drop(id_of(pod))

    async def close(self) -> None:
        if self._tunnels is not None:
            await self._tunnels.close()


def is_reachable(pod: Manifest) -> bool:
    """Also while it is being asked to end: it may still have something to say."""
    running = (container(pod).get("state") or {}).get("running") is not None
    return running and status(pod).get("phase") == "Running" and bool(status(pod).get("podIP"))

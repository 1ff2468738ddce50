"""A real nginx with our configuration and the real authoriser on its socket; workloads are rows, their servers `upstream`."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import uvicorn
from aiohttp.abc import AbstractResolver, ResolveResult
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from pytest_django import Settings

from apps.accounts.models import User
from apps.cluster import services as cluster
from apps.cluster.specs import Endpoint
from apps.core.ids import new_id
from apps.core.slugs import slug_for
from apps.gateway import nginx, services
from apps.gateway.authoriser import Authoriser
from apps.tenants.models import Tenant
from apps.workloads.models import Phase, Workload
from tests import factories
from tests.gateway import dialler
from tests.gateway.upstream import Upstream, serving

BOUND = 20  # seconds within which anything awaited must happen; not a claim about speed
RECHECK = 0.2  # seconds


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Loopback(AbstractResolver):
    """As browsers do: every name below `localhost` is this machine."""

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)]

    async def close(self) -> None:
        return


@dataclass
class Gateway:
    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    authoriser: uvicorn.Server

    def origin(self, workload: Workload) -> str:
        return f"http://{workload.slug}.localhost:{self.port}"


def workload(owner: User, tenant: Tenant, name: str = "Notebook", phase: str = Phase.READY) -> Workload:
    made = new_id()
    return Workload.objects.create(
        id=made, kind="experiment", name=name, slug=slug_for(name, made), owner=owner, tenant=tenant,
        environment=factories.environment(), phase=phase,
    )  # fmt: skip


def session_of(user: User) -> Any:
    """A signed-in session, as the portal makes it."""
    store = import_module(django_settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = django_settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return store


@dataclass
class Scene:
    """Lin's notebook in the lab and Tom's in another tenant, each with a server of its own; Otto belongs nowhere."""

    lin: User
    tom: User
    otto: User
    operator: User
    lab: Tenant
    mine: Workload
    other: Workload
    lin_session: Any
    tom_session: Any


def _make_scene() -> Scene:
    world = factories.world()
    people = {n: User.objects.get(username=n) for n in ("member", "stranger", "outsider", "operator")}
    return Scene(
        lin=people["member"],
        tom=people["stranger"],
        otto=people["outsider"],
        operator=people["operator"],
        lab=world.lab,
        mine=workload(people["member"], world.lab, "练习 one"),
        other=workload(people["stranger"], world.other_lab, "Speech"),
        lin_session=session_of(people["member"]),
        tom_session=session_of(people["stranger"]),
    )


@pytest_asyncio.fixture
async def scene(transactional_db: None) -> Scene:
    return await sync_to_async(_make_scene)()


@pytest_asyncio.fixture
async def servers(scene: Scene) -> AsyncIterator[dict[str, Upstream]]:
    """The upstream of each workload, by uid."""
    async with serving("mine") as mine, serving("other") as other:
        made = {scene.mine.uid: mine, scene.other.uid: other}
        for uid, upstream in made.items():
            header = {"Authorization": f"token secret-of-{upstream.name}"}
            dialler.endpoints[uid] = Endpoint("127.0.0.1", upstream.port, header)
        yield made
        dialler.endpoints.clear()


@pytest.fixture
def gateway_settings(settings: Settings) -> Iterator[Settings]:
    # Not below pytest's own folder: nginx's account could not walk there.
    folder = Path(tempfile.mkdtemp(prefix="tsr-gw-"))
    folder.chmod(0o755)
    settings.GATEWAY_DIR = folder / "gateway"
    settings.BELL_DIR = folder / "bells"
    settings.GATEWAY_PORT = settings.GATEWAY_PUBLIC_PORT = free_port()
    settings.CLUSTER_DRIVER = "tests.gateway.dialler.Dialler"
    cluster.reader.cache_clear()
    yield settings
    cluster.reader.cache_clear()
    shutil.rmtree(folder)


async def wait_until(true: Callable[[], bool]) -> None:
    """For what has no event of its own: another process's socket, a counter in another task."""
    async with asyncio.timeout(BOUND):
        while not true():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def start_authoriser(folder: Path) -> tuple[uvicorn.Server, asyncio.Task[None]]:
    config = uvicorn.Config(
        Authoriser(), uds=str(nginx.socket_path(folder)), lifespan="on", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # pytest's own stay
    task = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    return server, task


def start_nginx(command: nginx.Command) -> subprocess.Popen[bytes]:
    account = command.account
    groups: dict[str, Any] = {"user": account, "group": account, "extra_groups": []} if account is not None else {}
    started: subprocess.Popen[bytes] = subprocess.Popen(command.argv, start_new_session=True, **groups)
    return started


@pytest_asyncio.fixture
async def gateway(gateway_settings: Settings, scene: Scene, servers: object) -> AsyncIterator[Gateway]:
    folder, port = gateway_settings.GATEWAY_DIR, gateway_settings.GATEWAY_PORT
    command = nginx.prepare(folder, listen=f"127.0.0.1:{port}", recheck_seconds=RECHECK)
    authoriser, serving_task = await start_authoriser(folder)
    process = start_nginx(command)
    try:
        await wait_until(lambda: process.poll() is not None or answers(port))
        assert process.poll() is None, "nginx did not start"
        yield Gateway(port, folder, process, authoriser)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(BOUND)
        authoriser.should_exit = True
        await serving_task


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    """Keeps cookies per host, as a browser does; follows nothing by itself."""
    connector = aiohttp.TCPConnector(resolver=Loopback())
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.CookieJar()) as session:
        yield session


async def ticket_url(user: User, of: Workload, session: Any, page: str = "") -> str:
    from apps.audit.context import Actor
    from apps.gateway import addresses

    ticket = await sync_to_async(services.issue_ticket)(
        actor=Actor.person(user), user=user, workload=of, session_key=session.session_key, page=page
    )
    return addresses.enter(of.slug, ticket)


@pytest_asyncio.fixture
async def inside(gateway: Gateway, scene: Scene, browser: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """Lin's browser, let in to her own notebook."""
    url = await ticket_url(scene.lin, scene.mine, scene.lin_session)
    async with browser.get(url, allow_redirects=False) as answer:
        assert answer.status == 303
    return browser

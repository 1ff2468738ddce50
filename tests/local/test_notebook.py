"""The notebook environment under the local driver: a real JupyterLab, its kernels, and the welcome notebook on a share of a GPU."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from apps.cluster.drivers.local import LocalCluster
from apps.cluster.specs import Probe, RunSpec, RunState, Volume
from apps.core.share import GIB, GpuShare, Resources
from tests.contract.local_site import LocalSite
from tests.contract.watching import BOUND, Watcher, watching
from tests.local.conftest import left_of
from tests.local.jupyter import Browser, browser

HOME = (Volume("home-ada", "~"),)


def notebook(place: LocalSite, *, run: int = 1, **changes: Any) -> RunSpec:
    values: dict[str, Any] = {
        "command": ("tessera-notebook",),
        "environment": "notebook",
        "probe": Probe("http", "/api/status"),
        "volumes": HOME,
        "labels": {"owner": "ada"},
        "resources": Resources(gpu=None, cpu_milli=2000, ram=4 * GIB),
        "grace_seconds": 10,
    }
    return place.spec("notebook", "serve", run=run, **values | changes)


@pytest.fixture
async def lab(notebooks: LocalSite, cluster: LocalCluster, watch: Watcher) -> Any:
    """A browser at a JupyterLab that is ready."""
    await cluster.apply(notebook(notebooks))
    await watch.until("notebook", RunState.READY)
    async with browser(await cluster.dial("notebook", "http")) as made:
        yield made


async def test_it_answers_the_gateway_and_nobody_else(lab: Browser, cluster: LocalCluster) -> None:
    page = await lab.page()
    async with aiohttp.ClientSession() as stranger, stranger.get(lab.base / "api/contents") as response:
        assert response.status == 403
    token = (await cluster.dial("notebook", "http")).headers["Authorization"].removeprefix("Bearer ")
    assert token not in page
    assert token not in (await cluster.logs("notebook", limit=1024**2)).text


async def test_another_page_cannot_make_the_browser_act(lab: Browser) -> None:
    await lab.page()
    async with lab.session.post(lab.base / "api/kernels", json={}) as response:
        assert response.status == 403
    elsewhere = {"Origin": "http://elsewhere.localhost"}
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await lab.session.ws_connect(lab.base / "api/events/subscribe", headers=elsewhere)
    assert refused.value.status == 403


async def test_kernels_run_code_and_know_no_secret(lab: Browser) -> None:
    await lab.page()
    async with lab.kernel() as kernel:
        assert await kernel.run("print(6 * 7)") == "42\n"
        names = await kernel.run("import os; print(sorted(os.environ))")
        assert "TESSERA_TOKEN" not in names
        assert "LISTEN_FDS" not in names
        assert (
            await kernel.run("import numpy, cuda.bindings, pynvml; print(os.getenv('HOME') == os.getcwd())") == "True\n"
        )
        assert "tcp" in await kernel.run(
            "from ipykernel.kernelapp import IPKernelApp as A; print(A.instance().transport)"
        )
        assert await kernel.run("print(A.instance().curve_secretkey is not None)") == "True\n"


async def test_packages_that_people_add_are_found_by_kernels(lab: Browser) -> None:
    await lab.page()
    async with lab.kernel() as kernel:
        where = (await kernel.run("import os; print(os.environ['PIP_TARGET'])")).strip()
        await kernel.run(f"import pathlib; pathlib.Path('{where}/mine.py').write_text('answer = 42')")
        assert await kernel.run("import mine; print(mine.answer)") == "42\n"


async def test_a_killed_kernel_comes_back_and_the_run_stays(lab: Browser, cluster: LocalCluster) -> None:
    await lab.page()
    async with lab.kernel() as kernel, asyncio.timeout(BOUND):
        first = await kernel.run("import os; print(os.getpid())")
        await lab.post("api/kernels", {"name": "python3"})
        os.kill(int(first), signal.SIGKILL)
        await kernel.until_status("restarting")
        assert await kernel.run("import os; print(os.getpid())") != first
    assert (await cluster.get("notebook")).state is RunState.READY


async def test_stopping_leaves_no_kernel_and_no_terminal(lab: Browser, cluster: LocalCluster, watch: Watcher) -> None:
    await lab.page()
    await lab.post("api/terminals")
    async with lab.kernel() as kernel:
        await kernel.run("import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
        assert len(left_of("notebook")) >= 4  # server, kernel, shell, sleep
    await cluster.delete("notebook", grace_seconds=10)
    ended = await watch.until("notebook", RunState.EXITED)
    assert ended.reason == ""
    assert left_of("notebook") == set()


async def test_a_new_home_is_furnished_once(
    lab: Browser, notebooks: LocalSite, cluster: LocalCluster, watch: Watcher
) -> None:
    home = notebooks.state / "homes" / "home-ada"
    assert (home / "Welcome.ipynb").exists()
    (home / "Welcome.ipynb").unlink()
    await cluster.apply(notebook(notebooks, run=2))
    await watch.until("notebook", RunState.READY, run=2)
    assert not (home / "Welcome.ipynb").exists()


def printed(path: Path) -> list[str]:
    """What each cell of code printed."""
    cells = json.loads(path.read_text())["cells"]
    return ["".join("".join(o.get("text", "")) for o in c["outputs"]) for c in cells if c["cell_type"] == "code"]


async def test_the_welcome_notebook_shows_the_share_and_keeps_within_it(notebooks: LocalSite) -> None:
    share = GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=300)
    resources = Resources(gpu=share, cpu_milli=2000, ram=4 * GIB)
    cluster = notebooks.cluster()
    async with notebooks.cards("h100"):
        await cluster.start()
        async with watching(cluster) as watch:
            await cluster.apply(notebook(notebooks))
            await watch.until("notebook", RunState.READY)
            await cluster.delete("notebook", grace_seconds=5)
            await watch.until("notebook", RunState.EXITED)
            welcome = notebooks.state / "homes" / "home-ada" / "Welcome.ipynb"
            welcome.write_text(welcome.read_text().replace("SECONDS = 15", "SECONDS = 6"))
            execute = ("jupyter", "execute", "--inplace", "Welcome.ipynb")
            await cluster.apply(notebook(notebooks, run=2, command=execute, resources=resources, ports=(), probe=None))
            ended = await watch.until("notebook", RunState.EXITED, run=2)
            assert ended.reason == "exited", (await cluster.logs("notebook")).text
        await cluster.close()
    device, nvml, there_and_back, limit, *_, busy = printed(welcome)
    assert "8.00 GiB are yours" in device
    assert "of   8.00 GiB in use" in nvml
    assert nvml.count("process") == 1
    assert "came back unchanged" in there_and_back
    assert "CUDA_ERROR_OUT_OF_MEMORY" in limit
    assert "guaranteed 30% of the card" in busy
    assert 20 < float(busy.rsplit("measured over all: ")[1].rstrip("%\n")) < 40

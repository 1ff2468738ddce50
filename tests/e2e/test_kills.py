"""kill -9 of any one process of Tessera: no experiment, no quota and no file is lost, and everything comes back by itself."""

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import until
from tests.e2e.lab import call
from tests.product import PARTS, Api, Product

pytestmark = pytest.mark.e2e


@pytest.fixture
def running(product: Product, nothing_runs: None) -> dict[str, Any]:
    """A ready experiment with a GPU, made by REST."""
    api = product.token("lin")
    made = api(
        "POST",
        "/experiments",
        {"tenant": "vision-lab", "name": "Survivor", "environment": "notebook", "flavour": "small"},
    )
    assert made.status == 202, made
    return until(lambda: _ready(api, made.body["id"]), "ready")


def _ready(api: Api, experiment: str) -> dict[str, Any] | None:
    seen = api("GET", f"/experiments/{experiment}")
    return seen.body if seen.status == 200 and seen.body["phase"] == "ready" and not seen.body["is_unknown"] else None


def _held(api: Api) -> dict[str, int]:
    lines = api.get("/tenants/vision-lab/quota")["lines"]
    return {line["dimension"]: line["used"] for line in lines if line["tenant"] == "Vision Lab"}


def _open(context: BrowserContext, lin: Page, product: Product, experiment: str) -> Page:
    lin.goto(f"{product.url}/experiments/{experiment}/")
    with context.expect_page() as opened:
        lin.get_by_role("link", name="Open", exact=True).click()
    lab = opened.value
    expect(lab.get_by_text("Welcome.ipynb").first).to_be_visible()
    return lab


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_killed_part_comes_back_and_nothing_is_lost(
    part: str, product: Product, running: dict[str, Any], context: BrowserContext, lin: Page
) -> None:
    api = product.token("lin")
    held, lab = _held(api), _open(context, lin, product, running["id"])
    began = call(lab, "GET", "/api/status")["started"]  # of the Jupyter server: another start would be another time
    victim = product.part(part)
    os.kill(victim, signal.SIGKILL)
    until(lambda: _another(product, part, victim), f"a new {part}")
    again = until(lambda: _ready(api, running["id"]), "the experiment seen ready")
    assert again["run"] == running["run"]
    assert _held(api) == held
    assert until(lambda: _status(lab), "the notebook through the gateway")["started"] == began


def _another(product: Product, part: str, victim: int) -> bool:
    try:
        return product.part(part) != victim
    except LookupError:
        return False


def _status(lab: Page) -> dict[str, Any] | None:
    try:
        return dict(call(lab, "GET", "/api/status"))
    except Exception:
        return None


def test_a_killed_kernel_is_started_again_and_its_gpu_memory_is_free(
    product: Product, running: dict[str, Any], context: BrowserContext, lin: Page
) -> None:
    lab = _open(context, lin, product, running["id"])
    kernel = call(lab, "POST", "/api/kernels", {"name": "python3"})["id"]
    victim = until(lambda: _kernel_process(kernel), "the kernel's process")
    os.kill(victim, signal.SIGKILL)
    until(lambda: _kernel_process(kernel) not in (None, victim), "another process for the same kernel")
    assert call(lab, "GET", f"/api/kernels/{kernel}")["id"] == kernel
    seen = product.token("lin").get(f"/experiments/{running['id']}")
    assert (seen["phase"], seen["run"]) == ("ready", running["run"])


def _kernel_process(kernel: str) -> int | None:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:
                continue
            if b"ipykernel" in words and kernel.encode() in words:
                return int(entry.name)
    return None


def test_experiments_outlive_a_killed_supervisor_and_are_adopted(
    product: Product, running: dict[str, Any], context: BrowserContext, lin: Page
) -> None:
    api = product.token("lin")
    held, lab = _held(api), _open(context, lin, product, running["id"])
    began = call(lab, "GET", "/api/status")["started"]
    product.kill()
    product.start()
    again = until(lambda: _ready(api, running["id"]), "the experiment seen ready")
    assert again["run"] == running["run"]
    assert _held(api) == held
    assert until(lambda: _status(lab), "the notebook through the gateway")["started"] == began


def test_two_hundred_requests_at_once_admit_what_the_quota_holds(product: Product, nothing_runs: None) -> None:
    """Over REST, against the quota of Speech Lab: two running per person, five waiting, the rest refused with the numbers."""
    api = product.token("tom")

    async def ask(session: aiohttp.ClientSession, number: int) -> int:
        body = {"tenant": "speech-lab", "name": f"Parallel {number}", "environment": "notebook", "flavour": "cpu"}
        headers = {"Authorization": f"Bearer {api.secret}", "Idempotency-Key": f"parallel-{number}"}
        async with session.post(f"{product.url}/api/v1/experiments", json=body, headers=headers) as answer:
            return answer.status

    async def all_of_them() -> list[int]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as session:
            return await asyncio.gather(*(ask(session, number) for number in range(200)))

    with ThreadPoolExecutor(1) as elsewhere:  # the browser's driver has an event loop in this thread
        statuses = elsewhere.submit(asyncio.run, all_of_them()).result()
    assert statuses.count(202) == 2 + 5, sorted(set(statuses))
    assert set(statuses) <= {202, 409}
    phases = [e["phase"] for e in api.get("/experiments?limit=100")["items"]]
    assert phases.count("queued") == 5
    lines = api.get("/tenants/speech-lab/quota")["lines"]
    held = {line["dimension"]: line["used"] for line in lines if line["tenant"] == "Speech Lab"}
    assert held["running"] == 2


def test_nobody_else_of_the_machine_may_read_the_state(product: Product) -> None:
    """Database, demo passwords, secret key, logs: all closed to other accounts, whatever the folder is called."""
    for name in ("tessera.sqlite3", "tessera.sqlite3-wal", "demo-accounts.json", "secret-key", "logs"):
        mode = (product.state / name).stat().st_mode
        assert mode & 0o077 == 0, f"{name} is open to others ({mode:o})"

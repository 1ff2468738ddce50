"""Renders every page into docs/images/: light, dark, Chinese, and at the width of a phone.

Starts the whole product in a state folder of its own with a simulated card, lets people of the demo ask for notebooks, lets
two of them work as the welcome notebook does, and takes the pictures meanwhile. Run: make screenshots
"""

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright  # noqa: E402

from tests.e2e.conftest import CHROMIUM, sign_in, until  # noqa: E402
from tests.e2e.lab import call, open_welcome, run_all  # noqa: E402
from tests.product import Product, running  # noqa: E402

IMAGES = PROJECT / "docs" / "images"
SETTLED_MS = 1500  # for the socket to connect and the charts to draw
POINTS = 60  # seconds of figures before the pictures are taken
WORK_SECONDS = 3600  # more than the pictures take
HELD = {"baseline": 20, "tuning": 52}  # blocks of 256 MiB that each notebook keeps


@dataclass(frozen=True)
class Look:
    """One way in which every page is shown."""

    name: str
    scheme: str = "light"
    locale: str = "en-GB"
    width: int = 1280
    height: int = 832


LOOKS = (
    Look("light"),
    Look("dark", scheme="dark"),
    Look("chinese", locale="zh-CN"),
    Look("phone", width=390, height=844),
)


def create(product: Product, username: str, tenant: str, flavour: str, name: str) -> str:
    """Ask by REST; the id of the experiment."""
    api = product.token(username)
    body = {
        "tenant": tenant,
        "name": name,
        "environment": "notebook",
        "flavour": flavour,
        "time_limit_seconds": 28800,
    }
    reply = api("POST", "/experiments", body)
    assert reply.status == 202, reply
    return str(reply.body["id"])


def ready(product: Product, username: str, experiment: str) -> None:
    api = product.token(username)
    until(lambda: api.get(f"/experiments/{experiment}")["phase"] == "ready", f"{experiment} ready")


def people(product: Product) -> dict[str, str]:
    """Name of the picture's subject -> id of an experiment, in the states that the pictures show."""
    made = {
        "baseline": create(product, "lin", "vision-lab", "medium", "Segmentation baseline"),
        "tuning": create(product, "lin", "vision-lab", "large", "多语言微调"),
        "check": create(product, "mei", "vision-lab", "small", "Data check"),
    }
    for name, username in (("baseline", "lin"), ("tuning", "lin"), ("check", "mei")):
        ready(product, username, made[name])
    admin = product.token("admin", "read", "experiments:write", "platform")
    admin("POST", f"/experiments/{made['check']}/stop", {"reason": "The rack is moved at noon"})
    made["waiting"] = create(product, "tom", "speech-lab", "medium", "Whisper distillation")
    return made


def at_work(lab: Page) -> bool:
    """Ask for all cells, and see whether the kernel took them: JupyterLab may not listen yet when its page is there already."""
    run_all(lab)
    lab.wait_for_timeout(SETTLED_MS)
    return any(kernel["execution_state"] == "busy" for kernel in call(lab, "GET", "/api/kernels"))


def keep_busy(lab: Page, blocks: int) -> None:
    """The welcome notebook once more, working for an hour and holding memory meanwhile, as a training would."""
    open_welcome(lab)
    notebook = call(lab, "GET", "/api/contents/Welcome.ipynb?content=1")["content"]
    hold: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    hold["source"] = f"kept = [check(driver.cuMemAlloc(256 * 1024**2)) for _ in range({blocks})]"
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and "STEP" not in cell["source"]]
    for cell in cells:
        cell["source"] = cell["source"].replace("SECONDS = 15", f"SECONDS = {WORK_SECONDS}")
    notebook["cells"] = [*cells[:1], hold, *cells[1:]]
    call(lab, "PUT", "/api/contents/Training.ipynb", {"type": "notebook", "content": notebook})
    lab.goto("/".join(lab.url.split("/")[:3]) + "/lab/tree/Training.ipynb")
    lab.get_by_text("Python 3 (ipykernel) | Idle").first.wait_for()
    until(lambda: at_work(lab), "the kernel at work")


def work(browser: Browser, product: Product, experiments: dict[str, str]) -> BrowserContext:
    """Let the researcher's two notebooks work; the figures in the pictures are theirs."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    context.set_default_timeout(120_000)
    page = sign_in(context, product, "lin")
    for name in ("baseline", "tuning"):
        page.goto(f"{product.url}/experiments/{experiments[name]}/")
        with context.expect_page() as opened:
            page.get_by_role("link", name="Open", exact=True).click()
        keep_busy(opened.value, HELD[name])
    api = product.token("lin")

    def worked() -> bool:
        found = api.get(f"/experiments/{experiments['baseline']}/metrics?seconds=300&step=1")["series"]
        share: dict[str, Any] = next((series for series in found if series["of"] == "share"), {})
        used = [figure for figure in share.get("compute_used_permille", []) if figure]
        return len(used) >= POINTS

    until(worked, "figures of a minute with work in it", 300.0)
    return context


def pages(experiments: dict[str, str]) -> list[tuple[str, str, str]]:
    """(name of the picture, who looks, address)."""
    return [
        ("sign-in", "", "/account/login/"),
        ("home", "lin", "/"),
        ("empty", "otto", "/"),
        ("new", "lin", "/experiments/new/"),
        ("experiments", "lin", "/experiments/"),
        ("experiment", "lin", f"/experiments/{experiments['baseline']}/"),
        ("waiting", "tom", f"/experiments/{experiments['waiting']}/"),
        ("stopped", "mei", f"/experiments/{experiments['check']}/"),
        ("cluster", "lin", "/cluster/"),
        ("tenants", "admin", "/tenants/"),
        ("tenant", "admin", "/tenants/vision-lab/"),
        ("workloads", "mei", "/workloads/"),
        ("audit", "admin", "/audit/"),
        ("account", "lin", "/account/"),
        ("search", "admin", "/search/?q=a"),
        ("not-found", "lin", "/nothing-here/"),
    ]


def prepare(page: Page, name: str) -> None:
    """What a person would have done before the picture is taken."""
    if name == "new":
        page.locator("input[name=flavour][value=whole]").check()
    if name == "tenant":
        page.locator("details.card > summary").click()
        page.locator("#id_gpu_memory").fill("24")


def photograph(browser: Browser, product: Product, experiments: dict[str, str], look: Look) -> None:
    signed_in: dict[str, BrowserContext] = {}
    for name, username, address in pages(experiments):
        context = signed_in.get(username)
        if context is None:
            context = signed_in[username] = _context(browser, product, username, look)
        page = context.new_page()
        page.goto(product.url + address)
        page.wait_for_timeout(SETTLED_MS)
        prepare(page, name)
        page.wait_for_timeout(SETTLED_MS)
        page.screenshot(path=IMAGES / f"{name}-{look.name}.png", full_page=True)
        page.close()
    for context in signed_in.values():
        context.close()


def _context(browser: Browser, product: Product, username: str, look: Look) -> BrowserContext:
    scheme: Any = look.scheme
    context = browser.new_context(
        viewport={"width": look.width, "height": look.height},
        color_scheme=scheme,
        locale=look.locale,
        timezone_id="Asia/Shanghai",
    )
    context.set_default_timeout(60_000)
    if username:
        page = context.new_page()
        page.goto(f"{product.url}/account/login/")
        page.locator("#id_login").fill(username)
        page.locator("#id_password").fill(product.accounts[username])
        page.locator("main button.btn-primary").click()
        page.wait_for_url(f"{product.url}/")
        page.close()
    return context


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the product is stopped as well
    IMAGES.mkdir(parents=True, exist_ok=True)
    say: Callable[[str], None] = lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: E731
    say("starting the product")
    with running(cards="h100") as product, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        experiments = people(product)
        say("experiments run")
        working = work(browser, product, experiments)
        say("two of them are at work")
        for look in LOOKS:
            photograph(browser, product, experiments, look)
            say(f"pictures taken: {look.name}")
        working.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

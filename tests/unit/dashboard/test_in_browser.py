"""Pages in a real browser: accessible, without violations of the content security policy, and kind to what people do."""

import os
from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, expect, sync_playwright

from apps.audit.context import Actor
from apps.workloads.models import Phase, Workload
from tests.factories import World
from tests.unit.dashboard.conftest import Make, Person

pytestmark = pytest.mark.django_db(transaction=True)
Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    # Playwright keeps an event loop in this thread; the tests' own queries beside it are meant.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def visit(live_server: object, chromium: Browser, browser: Person) -> Iterator[Visit]:
    """Open an address as somebody. Whatever the browser complains about fails the test, but for the socket that is not served here."""
    complaints: list[str] = []
    contexts = []

    def opened(actor: Actor | None, path: str, *, scheme: str = "light") -> Page:
        context = chromium.new_context(color_scheme=scheme, locale="en-GB")  # type: ignore[arg-type]
        contexts.append(context)
        address = str(live_server).replace("127.0.0.1", "localhost")
        if actor is not None:
            client: Client = browser(actor)
            cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": address}])
        page = context.new_page()
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    expected = (
        "WebSocket",
        "htmx:afterRequest",
        "htmx:sendAbort",
    )  # no socket here; a verdict given up by leaving the page
    assert [text for text in complaints if not any(word in text for word in expected)] == []


def _faults(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{fault['id']}: {node['html'][:120]}" for fault in found for node in fault["nodes"]]


PAGES = (
    "/",
    "/experiments/",
    "/experiments/new/",
    "/cluster/",
    "/tenants/",
    "/tenants/{lab}/",
    "/workloads/",
    "/audit/",
    "/account/",
    "{row}",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_known_fault_of_accessibility(
    world: World, make: Make, card: object, choices: None, visit: Visit, scheme: str
) -> None:
    row = make("Baseline", cards=["GPU-h100"], time_limit_seconds=3600)
    make("Broken", Phase.FAILED, reason="crashed", evidence={"exit_code": 3})
    page = visit(world.operator, "/", scheme=scheme)
    root = page.url.rstrip("/")
    faults = {}
    for path in PAGES:
        page.goto(root + path.format(lab=world.lab.slug, row=f"/experiments/{row.id}/"))
        faults[path] = _faults(page)
    assert faults == {path: [] for path in PAGES}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.usefixtures("diagnosed")
def test_the_diagnosis_leads_from_what_needs_somebody_to_its_line(world: World, visit: Visit, scheme: str) -> None:
    page = visit(world.operator, "/cluster/diagnosis/", scheme=scheme)
    assert _faults(page) == []
    good = page.get_by_text("Kubernetes v1.36.3")
    expect(good).to_be_hidden()
    page.get_by_text("API server", exact=True).click()
    expect(good).to_be_visible()
    page.get_by_role("link", name="No GPU is offered").click()
    expect(page.locator("li:target")).to_contain_text("kubectl logs")


def test_the_sign_in_page_has_no_known_fault_of_accessibility(db: None, visit: Visit) -> None:
    assert _faults(visit(None, "/account/login/")) == []


def test_a_choice_changes_the_verdict_before_anything_is_sent(
    world: World, card: object, choices: None, visit: Visit
) -> None:
    page = visit(world.member, "/experiments/new/")
    expect(page.locator("#verdict")).to_contain_text("Starts now")
    page.get_by_text("Choose the numbers yourself").last.click()
    page.locator("#id_gpu_memory").fill("60")
    expect(page.locator("#verdict")).to_contain_text("Cannot start")
    page.locator("[data-fill]").click()
    expect(page.locator("#verdict")).to_contain_text("Starts now")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/experiments/*-*/")
    assert Workload.objects.count() == 1


def test_what_was_typed_survives_leaving_the_page(world: World, card: object, choices: None, visit: Visit) -> None:
    page = visit(world.member, "/experiments/new/")
    page.locator("#id_name").fill("Mein Versuch")
    page.get_by_role("link", name="GPUs").click()
    page.get_by_role("link", name="Experiments").click()
    page.get_by_role("link", name="New experiment").first.click()
    expect(page.locator("#id_name")).to_have_value("Mein Versuch")


def test_two_clicks_ask_once(world: World, card: object, choices: None, visit: Visit) -> None:
    page = visit(world.member, "/experiments/new/")
    page.get_by_role("button", name="Start").dblclick()
    page.wait_for_url("**/experiments/*-*/")
    assert Workload.objects.count() == 1


def test_without_a_socket_the_page_polls_and_says_so(world: World, make: Make, visit: Visit) -> None:
    row = make()
    page = visit(world.member, f"/experiments/{row.id}/")
    expect(page.locator("#live-banner")).to_contain_text("every five seconds", timeout=20_000)
    Workload.objects.filter(id=row.id).update(phase=Phase.FAILED, reason="crashed", evidence={"exit_code": 9})
    expect(page.locator("[data-part=why]")).to_contain_text("exit code 9", timeout=20_000)


def test_keys_search_and_explain_themselves(world: World, visit: Visit) -> None:
    page = visit(world.member, "/")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Tab")
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/cluster/")


def test_stopping_asks_first_and_says_what_is_lost(world: World, make: Make, visit: Visit) -> None:
    row = make()
    page = visit(world.member, f"/experiments/{row.id}/")
    page.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("What is in memory is lost")
    dialog.get_by_role("button", name="Stop").click()
    expect(page.locator("[data-part=head]")).to_contain_text("stopping")

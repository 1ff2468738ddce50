"""One product and one browser for all tests of this folder; each test has a page of its own."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.product import Api, Product, running

T = TypeVar("T")
LIMIT = 120.0  # seconds until a condition counts as never; far above what anything takes on a busy machine
CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=LIMIT * 1000)


def until(look: Callable[[], T | None], what: str, limit: float = LIMIT) -> T:
    """The first answer of `look` that is neither None nor false."""
    end = time.monotonic() + limit
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"never came: {what}")
        time.sleep(0.2)


@pytest.fixture(scope="session")
def product() -> Iterator[Product]:
    with running(cards="h100") as product:
        yield product


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    made.set_default_timeout(LIMIT * 1000)
    yield made
    made.close()


def sign_in(context: BrowserContext, product: Product, username: str) -> Page:
    page = context.new_page()
    page.goto(product.url)
    page.get_by_label("User name").fill(username)
    page.get_by_label("Password").fill(product.accounts[username])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


@pytest.fixture
def lin(context: BrowserContext, product: Product) -> Page:
    """A member of Vision Lab, signed in."""
    return sign_in(context, product, "lin")


@pytest.fixture
def nothing_runs(product: Product) -> Iterator[None]:
    """Afterwards everything that the people of the demo run is gone, so that the next test finds its quota free."""
    yield
    for username in ("lin", "tom", "mei"):
        api = product.token(username)
        mine = [e for e in api.get("/experiments")["items"] if e["owner"]["username"] == username]
        for experiment in mine:
            api("DELETE", f"/experiments/{experiment['id']}")
        for experiment in mine:
            until(partial(_gone, api, experiment["id"]), f"end of {experiment['name']}")


def _gone(api: Api, experiment: str) -> bool:
    return api("GET", f"/experiments/{experiment}").status == 404


@pytest.fixture
def browser_context_of_otto(browser: Browser) -> Iterator[BrowserContext]:
    """A second browser profile, for somebody who belongs to no tenant."""
    made = browser.new_context(locale="en-GB")
    made.set_default_timeout(LIMIT * 1000)
    yield made
    made.close()

"""A terminal in a notebook's pod, in the page: what is typed runs there, and nobody else gets in."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.cluster.cluster import Cluster
from tests.e2e.conftest import sign_in
from tests.e2e_cluster.test_pods import ask, pods, ready
from tests.product import Product

pytestmark = pytest.mark.e2e


@pytest.mark.usefixtures("nothing_runs", "roomy")
def test_the_terminal_of_a_pod_is_its_owners_alone(
    context: BrowserContext, product: Product, installed: Cluster, lin: Page, browser_context_of_otto: BrowserContext
) -> None:
    api = product.token("lin")
    experiment = ask(api, "With a terminal 终端")
    ready(api, experiment)
    lin.goto(f"{product.url}/experiments/{experiment}/")
    with context.expect_page() as opened:
        lin.get_by_role("link", name="Terminal").click()
    page = opened.value
    page.wait_for_load_state()  # a page that is only just opening cannot be loaded again
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
    page.reload()
    expect(page.locator("[data-state]")).to_have_text("Connected")
    page.keyboard.type("echo $((6*7)) on $(hostname)\n")
    name = pods(installed)[experiment]["metadata"]["name"]
    expect(page.locator(".xterm-rows")).to_contain_text(re.compile(r"42 on \S+"))
    page.keyboard.type("printf '\\033[38;2;200;80;40mcoloured\\033[0m\\n'; stty size\n")
    expect(page.locator(".xterm-rows")).to_contain_text(re.compile(r"\d\d \d\d"))
    assert name.startswith(f"w-{experiment}")
    assert refused == [], "the policy without inline styles holds"

    page.keyboard.press("Control+F6")
    expect(page.get_by_role("main").get_by_role("link", name="Experiment", exact=True)).to_be_focused()

    otto = sign_in(browser_context_of_otto, product, "otto")
    answer = otto.goto(f"{product.url}/experiments/{experiment}/terminal/")
    assert answer is not None
    assert answer.status == 404
    code = otto.evaluate(
        """(path) => new Promise((done) => {
            const socket = new WebSocket(location.origin.replace("http", "ws") + path);
            socket.onclose = (event) => done(event.code);
        })""",
        f"/ws/terminal/{experiment}",
    )
    assert code == 4403

    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.type("exit\n")
    expect(page.locator("[data-state]")).to_have_text("The shell has ended.")
    page.get_by_role("button", name="Connect again").click()
    expect(page.locator("[data-state]")).to_have_text("Connected")
    api("POST", f"/experiments/{experiment}/stop")
    expect(page.locator("[data-state]")).not_to_have_text("Connected")

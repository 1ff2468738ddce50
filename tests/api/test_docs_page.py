"""The documentation page in a real browser, under the portal's own content security policy."""

import shutil

from playwright.sync_api import expect, sync_playwright

from tests.api.server import PATIENCE, Server


def test_the_page_shows_every_resource_and_breaks_no_policy(server: Server) -> None:
    complaints: list[str] = []
    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.goto(f"{server.url}/api/docs/")
        create = page.locator("#operations-experiments-experiments_create")
        expect(create).to_be_visible(timeout=PATIENCE * 1000)
        create.get_by_role("button").first.click()
        expect(create.get_by_text("Scope:")).to_be_visible(timeout=PATIENCE * 1000)
        assert page.locator(".opblock").count() > 30
    assert complaints == []

"""Nothing moves under a hand: what the server says while a button is held down waits until the button is released."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import until
from tests.product import Product

pytestmark = pytest.mark.e2e


def press(page: Page, name: str) -> None:
    # An answer may replace the button while it is looked for.
    box = until(lambda: page.get_by_role("button", name=name).bounding_box(), f"a place of the button {name}")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()


@pytest.mark.usefixtures("nothing_runs")
def test_a_slow_click_right_after_typing_is_not_lost(product: Product, lin: Page) -> None:
    """Leaving the field asks for the verdict anew, and the answer comes while the button is down."""
    lin.goto(f"{product.url}/experiments/new/")
    lin.get_by_role("radio", name="CPU only").check()
    expect(lin.get_by_text("Starts now").first).to_be_visible()
    lin.get_by_label("Name", exact=True).fill("Slow hand")
    with lin.expect_response(lambda answer: "verdict" in answer.url) as answer:
        press(lin, "Start")
    answer.value.finished()
    lin.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    lin.mouse.up()
    expect(lin.get_by_role("heading", name="Slow hand", level=1)).to_be_visible(timeout=20_000)


def test_what_was_held_back_is_shown_once_the_hand_is_away(product: Product, lin: Page) -> None:
    lin.goto(f"{product.url}/experiments/new/")
    lin.get_by_role("radio", name="CPU only").check()
    expect(lin.get_by_text("Starts now").first).to_be_visible()
    lin.evaluate("document.querySelector('#verdict button[type=submit]').dataset.old = 'yes'")
    lin.get_by_label("Name", exact=True).fill("Changed my mind")
    with lin.expect_response(lambda answer: "verdict" in answer.url) as answer:
        press(lin, "Start")
    answer.value.finished()
    lin.mouse.move(5, 5)
    lin.mouse.up()
    expect(lin.locator("#verdict button[data-old]")).to_have_count(0, timeout=20_000)
    expect(lin.get_by_role("heading", name="New experiment", level=1)).to_be_visible()

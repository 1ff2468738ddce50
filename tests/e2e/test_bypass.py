"""Going around the limits is told: to its owner on the page, to operators beside the cards, to nobody else; and it is over when it is."""

import re

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.conftest import sign_in
from tests.e2e.rogue import NOTICE, go_around, open_rogue, stop_it
from tests.e2e.test_two_notebooks import ask_for, open_lab
from tests.product import Product

pytestmark = pytest.mark.e2e


@pytest.mark.usefixtures("nothing_runs")
def test_who_goes_around_the_limits_reads_it_on_the_open_page(
    browser: Browser, context: BrowserContext, product: Product, lin: Page
) -> None:
    ask_for(lin, product, "Small slice", "Honest")
    honest = lin.url
    ask_for(lin, product, "Small slice", "Rogue")
    lab = open_lab(context, lin)
    open_rogue(lab)
    go_around(lab)
    expect(lin.get_by_text(NOTICE)).to_be_visible()
    expect(lin.get_by_text(re.compile(r"^python\S* \(\d+\) uses 10\S*\sGiB of GPU memory"))).to_be_visible()

    other = context.new_page()
    other.goto(honest)
    expect(other.get_by_role("heading", name="Honest", level=1)).to_be_visible()
    expect(other.get_by_text(NOTICE)).to_have_count(0)

    administrator = sign_in(browser.new_context(locale="en-GB"), product, "admin")
    administrator.goto(f"{product.url}/cluster/")
    expect(administrator.get_by_text("Rogue").first).to_be_visible()

    stop_it(lab)
    expect(lin.get_by_text(NOTICE)).to_have_count(0)

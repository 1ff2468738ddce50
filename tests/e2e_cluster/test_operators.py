"""Operators set right, on the pages, what a real cluster and the ledger do not agree on."""

from functools import partial

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cluster.cluster import Cluster
from tests.e2e.conftest import sign_in, until
from tests.e2e_cluster.test_pods import ask, pods, ready
from tests.product import Product

pytestmark = pytest.mark.e2e

_LOSE = """
from apps.experiments.models import Experiment
from apps.quotas.models import Claim
from apps.workloads.models import Step, Workload
for uid in {uids!r}:
    for model, field in ((Experiment, "workload_id"), (Step, "workload_id"), (Claim, "workload_id"), (Workload, "id")):
        model.objects.filter(**{{field: uid}}).delete()
"""


@pytest.fixture
def olga(browser: Browser, product: Product) -> Page:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    context.set_default_timeout(60_000)
    return sign_in(context, product, "admin")


def confirm(page: Page, name: str, label: str) -> None:
    item = page.get_by_role("listitem").filter(has_text=name)
    item.get_by_role("link", name=label).click()
    expect(page.get_by_role("heading", name=label)).to_be_visible()
    page.get_by_label("Reason, kept in the audit trail").fill("restored from Friday's backup")
    page.get_by_role("button", name=label).click()


@pytest.mark.usefixtures("nothing_runs", "roomy")
def test_runs_whose_rows_are_lost_are_adopted_or_removed(
    product: Product, installed: Cluster, olga: Page, lin: Page
) -> None:
    olga.goto(f"{product.url}/cluster/")
    expect(olga.get_by_role("heading", name="How GPUs are cut")).to_be_visible()
    expect(olga.get_by_text("Dynamic Resource Allocation")).to_be_visible()
    lin.goto(f"{product.url}/cluster/")
    expect(lin.get_by_text("How GPUs are cut")).to_have_count(0)

    api = product.token("lin")
    kept, adopted, removed = ask(api, "Kept"), ask(api, "To adopt 收养"), ask(api, "To remove")
    ready(api, kept, adopted, removed)
    born = {uid: pod["metadata"]["uid"] for uid, pod in pods(installed).items()}
    olga.get_by_role("link", name="Differences").click()
    expect(olga.get_by_text("Everything agrees")).to_be_visible()

    product.manage("shell", "-c", _LOSE.format(uids=[adopted, removed]))
    olga.get_by_role("link", name="Look again").click()
    expect(olga.get_by_role("heading", name="Runs without a row")).to_have_count(2)
    assert api("GET", f"/experiments/{adopted}").status == 404

    confirm(olga, "To adopt", "Adopt into the portal")
    expect(olga.get_by_text("is in the portal now")).to_be_visible()
    ready(api, adopted)
    assert api.get(f"/experiments/{adopted}")["owner"]["username"] == "lin"

    confirm(olga, "To remove", "Remove from the cluster")
    until(lambda: set(pods(installed)) == {kept, adopted}, "only that pod is gone")
    assert {uid: pod["metadata"]["uid"] for uid, pod in pods(installed).items()} == {
        uid: born[uid] for uid in (kept, adopted)
    }, "nothing was restarted"
    until(partial(_agrees, olga, product), "both books agree")

    for verb in ("experiment.adopt", "cluster.remove"):
        olga.goto(f"{product.url}/audit/?q={verb}")
        expect(olga.get_by_text("restored from Friday's backup").first).to_be_visible()

    assert lin.goto(f"{product.url}/cluster/differences/").status == 404  # type: ignore[union-attr]


def _agrees(page: Page, product: Product) -> bool:
    page.goto(f"{product.url}/cluster/differences/")
    return page.get_by_text("Everything agrees").count() == 1

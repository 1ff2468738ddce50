"""Notebooks as pods with fractions of cards, asked for on the portal's pages and by REST, placed by the cluster's own scheduler."""

import re
from statistics import mean
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.cluster.cluster import Cluster
from tests.e2e.conftest import sign_in, until
from tests.e2e.lab import open_welcome, output_once_it_holds, run_all
from tests.e2e.test_two_notebooks import ask_for, busy, open_lab
from tests.e2e_cluster.conftest import SLICE
from tests.product import Api, Product

pytestmark = pytest.mark.e2e


def ask(api: Api, name: str) -> str:
    made = api("POST", "/experiments", {**SLICE, "name": name})
    assert made.status == 202, made
    return str(made.body["id"])


def phase(api: Api, experiment: str) -> str:
    return str(api.get(f"/experiments/{experiment}")["phase"])


def ready(api: Api, *experiments: str) -> None:
    waiting = list(experiments)

    def all_ready() -> bool:
        waiting[:] = [experiment for experiment in waiting if phase(api, experiment) != "ready"]
        return not waiting

    try:
        until(all_ready, "all ready")
    except AssertionError:
        told = [api.get(f"/experiments/{experiment}") for experiment in waiting]
        raise AssertionError(
            [(one["name"], one["phase"], one["explanation"]["text"], one["observed_at"]) for one in told]
        ) from None


def pods(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Those of Vision Lab, by the workload that they are."""
    found = cluster.api.get("/api/v1/namespaces/tessera-vision-lab/pods")["items"]
    return {pod["metadata"]["labels"]["tessera.dev/workload"]: pod for pod in found}


def _whole_seconds(api: Api, experiment: str) -> list[int] | None:
    """Per mille of the card while it worked, without the first second and the last."""
    worked = [used for used in busy(api, experiment) if used][1:-1]
    return worked if len(worked) >= 10 else None


@pytest.mark.usefixtures("nothing_runs")
def test_a_notebook_in_a_pod_has_its_share_and_no_more(
    context: BrowserContext, product: Product, installed: Cluster, lin: Page, browser_context_of_otto: BrowserContext
) -> None:
    api = product.token("lin")
    experiment = ask_for(lin, product, "Medium slice", "In a pod 在集群里")
    assert pods(installed)[experiment]["spec"]["nodeName"] == installed.node_name
    lab = open_lab(context, lin)
    open_welcome(lab)
    run_all(lab)
    text = output_once_it_holds(lab, "measured over all")
    assert "  8.00 GiB are yours" in text
    assert "CUDA_ERROR_OUT_OF_MEMORY" in text
    assert "came back unchanged" in text
    assert "<- this notebook" in text
    measured = float(re.search(r"measured over all: ([\d.]+)%", text)[1]) * 10  # type: ignore[index]
    assert abs(measured - 300) <= 50, f"{measured / 10} % by its own measure"
    worked = until(lambda: _whole_seconds(api, experiment), "ten whole seconds of figures")
    assert abs(mean(worked) - 300) <= 50, worked
    assert max(worked) <= 350, worked

    logs = api.get(f"/experiments/{experiment}/logs")
    assert "JupyterLab" in logs["text"] or "jupyter" in logs["text"].lower(), logs

    otto = sign_in(browser_context_of_otto, product, "otto")
    otto.goto(f"{product.url}/experiments/{experiment}/")
    expect(otto.get_by_text("In a pod")).to_have_count(0)
    assert product.token("otto")("GET", f"/experiments/{experiment}").status == 404


@pytest.mark.usefixtures("nothing_runs", "roomy")
def test_of_seven_shares_on_two_cards_six_run_and_the_page_of_the_seventh_says_why(
    product: Product, installed: Cluster, lin: Page
) -> None:
    api = product.token("lin")
    six = [ask(api, f"Part {number}") for number in range(1, 7)]
    ready(api, *six)
    cards = [api.get(f"/experiments/{experiment}")["gpus"][0] for experiment in six]
    assert sorted(cards.count(card) for card in set(cards)) == [3, 3]

    seventh = ask(api, "The seventh")
    until(lambda: phase(api, seventh) == "scheduling", "the seventh waits")
    lin.goto(f"{product.url}/experiments/{seventh}/")
    needs = lin.get_by_role("main")
    expect(needs.get_by_text(re.compile("8 GiB and 30 %")).first).to_be_visible()
    for number in range(1, 7):
        expect(needs.get_by_text(f"Part {number}").first).to_be_visible()
    expect(needs.get_by_text(re.compile("10 %")).first).to_be_visible()  # what is left on each card
    assert phase(api, seventh) == "scheduling"

    api("POST", f"/experiments/{six[2]}/stop")
    ready(api, seventh)
    expect(lin.get_by_role("link", name="Open", exact=True)).to_be_visible()


@pytest.mark.usefixtures("nothing_runs", "roomy")
def test_a_lost_database_is_made_again_from_the_cluster(product: Product, installed: Cluster) -> None:
    api = product.token("lin")
    two = [ask(api, "Outlives the database 一"), ask(api, "Outlives the database 二")]
    ready(api, *two)
    before = {experiment: api.get(f"/experiments/{experiment}") for experiment in two}
    born = {uid: pod["metadata"]["uid"] for uid, pod in pods(installed).items()}
    product.stop()
    for file in product.state.glob("*.sqlite3*"):
        file.unlink()
    product.start()
    api = product.token("lin")
    ready(api, *two)
    for experiment in two:
        after = api.get(f"/experiments/{experiment}")
        for field in ("name", "resources", "gpus", "node", "run"):
            assert after[field] == before[experiment][field], field
        assert after["owner"]["username"] == "lin"
        assert after["tenant"]["slug"] == "vision-lab"
    used = {line["dimension"]: line["used"] for line in api.get("/tenants/vision-lab/quota")["lines"]}
    assert used["gpu_compute_permille"] == 600
    assert {uid: pod["metadata"]["uid"] for uid, pod in pods(installed).items()} == born, "nothing was restarted"

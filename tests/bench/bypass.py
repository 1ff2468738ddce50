"""How soon does a page that is open say that a program goes around the limits? `python -m tests.bench.bypass --out build/bench.jsonl`.

From the moment at which the program holds what its share does not have, by its own clock, to the moment at which the sentence stands on
the page in Chromium; and for how long an honest program's page says nothing, which is the control.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from playwright.sync_api import Page, expect, sync_playwright

from tests.e2e.conftest import CHROMIUM, sign_in
from tests.e2e.rogue import NOTICE, go_around, open_rogue, stop_it
from tests.e2e.test_two_notebooks import ask_for, open_lab
from tests.product import running
from vcuda.bench.figure import Figure

ROUNDS = 10
BAR = 2.0  # s

# Keeps the moment at which the words come, so that it does not matter when somebody asks.
_WATCH = """(words) => {
    window.told = null;
    const look = () => { if (window.told === null && document.body.innerText.includes(words)) window.told = Date.now() / 1000; };
    new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""


def seconds_until_told(page: Page, lab: Page) -> float:
    """Of one time. Afterwards the program and the notice are gone."""
    page.evaluate(_WATCH, NOTICE)
    began = go_around(lab)
    expect(page.get_by_text(NOTICE)).to_be_visible()
    told: float = page.evaluate("window.told")
    stop_it(lab)
    expect(page.get_by_text(NOTICE)).to_have_count(0)
    return told - began


def measure() -> list[float]:
    with running() as product, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
        context.set_default_timeout(120_000)
        page = sign_in(context, product, "lin")
        ask_for(page, product, "Small slice", "Rogue")
        lab = open_lab(context, page)
        open_rogue(lab)
        taken = []
        for number in range(ROUNDS):
            taken.append(seconds_until_told(page, lab))
            print(f"  {number + 1}: {taken[-1]:.2f} s", flush=True)
        chromium.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    taken = measure()
    method = (
        f"{ROUNDS} times in a notebook under `make run`: from 10 GiB held past the library to the sentence on the open page in Chromium; "
        f"median {median(taken):.2f} s, worst {max(taken):.2f} s; the notice was gone again before each next time"
    )
    figure = Figure(name="bypass.until_page", value=round(max(taken), 2), unit="s", bar=BAR, method=method)
    with out.open("a", encoding="utf-8") as file:
        file.write(figure.line() + "\n")
    print(f"{figure.name}: {figure.value} s (bar {figure.bar} s)")


if __name__ == "__main__":
    main()

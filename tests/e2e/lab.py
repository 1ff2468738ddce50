"""What a person does in JupyterLab: open the welcome notebook, run all of it, read what it printed."""

import re
from typing import Any

from playwright.sync_api import Error, Page, expect

from tests.e2e.conftest import until


def open_welcome(lab: Page) -> None:
    entry = lab.get_by_role("listitem").filter(has_text="Welcome.ipynb").first
    expect(entry).to_be_visible()
    entry.dblclick()
    expect(lab.get_by_role("heading", name="Welcome to Tessera").first).to_be_visible()


def run_all(lab: Page) -> None:
    """Once the kernel has said itself that it is idle, in the status bar: what is run before its websocket is there is not run at all.

    The indicator beside the notebook says idle from the beginning.
    """
    expect(lab.get_by_text(re.compile(r"\| Idle$")).first).to_be_visible()
    lab.get_by_role("menuitem", name="Run", exact=True).click()
    lab.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def call(lab: Page, method: str, path: str, body: Any = None) -> Any:
    """The Jupyter server's own API, asked from inside the page: with its cookie, its origin and its XSRF mark."""
    return lab.evaluate(
        """async ([method, path, body]) => {
            const mark = (document.cookie.match(/_xsrf=([^;]+)/) || [])[1] || "";
            const init = {method, headers: {"X-XSRFToken": mark, "Content-Type": "application/json"}};
            if (body) init.body = JSON.stringify(body);
            const answer = await fetch(path, init);
            if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
            return answer.json();
        }""",
        [method, path, body],
    )


def saved_output(lab: Page) -> str:
    """All text that the saved notebook holds as output."""
    cells: list[dict[str, Any]] = call(lab, "GET", "/api/contents/Welcome.ipynb?content=1")["content"]["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    errors = [output for output in outputs if output["output_type"] == "error"]
    assert not errors, errors
    return "".join("".join(output.get("text", "")) for output in outputs)


def output_once_it_holds(lab: Page, words: str) -> str:
    """Saves and reads until the output holds these words."""
    newest = [""]

    def look() -> str | None:
        lab.keyboard.press("Control+s")
        try:
            newest[0] = saved_output(lab)
        except Error:  # Jupyter rewrites the file in place: who reads meanwhile may find half of it. It is read again
            return None
        return newest[0] if words in newest[0] else None

    try:
        return until(look, f"{words!r} in the notebook's output")
    except AssertionError as error:
        raise AssertionError(f"{error}; there is: {newest[0]}") from None

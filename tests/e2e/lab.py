"""What a person does in JupyterLab: open the welcome notebook, run all of it, read what it printed."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.conftest import until


def open_welcome(lab: Page) -> None:
    entry = lab.get_by_role("listitem").filter(has_text="Welcome.ipynb").first
    expect(entry).to_be_visible()
    entry.dblclick()
    expect(lab.get_by_role("heading", name="Welcome to Tessera").first).to_be_visible()


def run_all(lab: Page) -> None:
    lab.get_by_role("menuitem", name="Run", exact=True).click()
    lab.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def saved_output(lab: Page) -> str:
    """All text that the saved notebook holds as output, by the server's own contents API with the browser's cookie."""
    origin = "/".join(lab.url.split("/")[:3])
    reply = lab.request.get(f"{origin}/api/contents/Welcome.ipynb?content=1")
    assert reply.ok, reply.status_text
    cells: list[dict[str, Any]] = reply.json()["content"]["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    errors = [output for output in outputs if output["output_type"] == "error"]
    assert not errors, errors
    return "".join("".join(output.get("text", "")) for output in outputs)


def output_once_it_holds(lab: Page, words: str) -> str:
    """Saves and reads until the output holds these words."""

    def look() -> str | None:
        lab.keyboard.press("Control+s")
        text = saved_output(lab)
        return text if words in text else None

    return until(look, f"{words!r} in the notebook's output")

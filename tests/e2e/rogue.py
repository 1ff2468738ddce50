"""A notebook that goes around the limits on purpose: it opens the driver that lies hidden behind the library."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.conftest import until
from tests.e2e.lab import call, run_all

NOTICE = "Programs go around its limits"  # as the page calls it
CELL = """
import ctypes, os, time
cuda = ctypes.CDLL(os.environ["LD_LIBRARY_PATH"].split(":")[0] + "/driver/libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(10 << 30)) == 0
print(f"around since {time.time():.3f}")
"""


def open_rogue(lab: Page) -> None:
    cell: dict[str, Any] = {
        "id": "around",
        "cell_type": "code",
        "source": CELL,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    call(lab, "PUT", "/api/contents/rogue.ipynb", {"type": "notebook", "content": content})
    origin = "/".join(lab.url.split("/")[:3])
    lab.goto(f"{origin}/lab/tree/rogue.ipynb")


def go_around(lab: Page) -> float:
    """Run it; answers the moment, in Unix seconds, from which on it held 10 GiB that its share does not have."""
    run_all(lab)
    output = lab.locator(".jp-OutputArea-output").get_by_text(re.compile("around since"))
    expect(output).to_be_visible()
    return float(re.search(r"around since ([\d.]+)", output.inner_text())[1])  # type: ignore[index]


def stop_it(lab: Page) -> None:
    """End its kernel, and with it what it held."""
    kernels: list[dict[str, Any]] = call(lab, "GET", "/api/kernels")
    for kernel in kernels:
        call(lab, "POST", f"/api/kernels/{kernel['id']}/restart")
    until(lambda: all(one["execution_state"] == "idle" for one in call(lab, "GET", "/api/kernels")), "a fresh kernel")
    lab.reload()  # the open page did not do it, and thinks that the kernel is starting still

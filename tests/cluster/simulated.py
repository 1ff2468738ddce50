"""The simulated cards of the node: one file, which the node agent and every pod with a share of them map."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.cluster.layout import Layout
from tests.cluster.machine import Missing
from tests.cluster.parts import PROJECT

TOOL: Final = PROJECT / "build" / "vcuda" / "sim" / "tessera-sim"


def make(layout: Layout, cards: tuple[str, ...]) -> Path:
    """Again with the same cards: nothing happens."""
    if not TOOL.exists():
        raise Missing("Simulated cards need the simulated driver. Build it: make vcuda")
    layout.node_folder.mkdir(parents=True, exist_ok=True)
    words = [str(TOOL), "create", str(layout.sim_node), "--cards", ",".join(cards)]
    words += ["--cards-dir", str(PROJECT / "vcuda" / "sim" / "cards")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"No simulated node with the cards {', '.join(cards)}: {done.stderr.strip()}")
    return layout.sim_node

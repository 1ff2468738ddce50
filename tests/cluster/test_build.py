"""Programs and images lie in the cache whole or not at all, whatever happened to who built them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.build import GO_MODULES, programs
from tests.cluster.machine import TO_BUILD, Missing, require, require_go
from tests.cluster.parts import PROJECT


@pytest.fixture
def built_before() -> None:
    """So that Go's own cache is warm and this takes seconds; also where this is the first test of all."""
    try:
        require(TO_BUILD)
        require_go()
    except Missing as missing:
        pytest.skip(str(missing))
    programs()


def test_a_build_that_was_killed_leaves_nothing_half_made_and_goes_on(built_before: None, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.cluster.build"]
    environment = os.environ | {"TESSERA_CLUSTER_CACHE": str(tmp_path)}
    build = subprocess.Popen(words, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL)
    time.sleep(4)  # not waiting for something: wherever it is by then, it is killed there
    build.send_signal(signal.SIGKILL)
    build.wait()
    assert all(list((folder / "bin").iterdir()) for folder in whole(tmp_path))
    subprocess.run(words, cwd=PROJECT, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert {folder.name.split("-")[0] for folder in whole(tmp_path)} == {*GO_MODULES, "pause"}
    kubectl = next(tmp_path.glob("k8s-*/bin/kubectl"))
    assert b"v1." in subprocess.run([kubectl, "version", "--client"], capture_output=True, check=True).stdout
    assert not [path for path in tmp_path.iterdir() if ".new" in path.name]


def test_what_debian_lacks_is_said_with_the_command_that_installs_it() -> None:
    with pytest.raises(Missing, match="Run: apt-get install --no-install-recommends left-pad"):
        require({"left-pad": "/nowhere"})


def whole(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.is_dir() and ".new" not in path.name]

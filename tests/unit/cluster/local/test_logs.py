"""Output by offset: nothing lost, nothing twice, no character cut, and old bytes given up without a trace but their absence."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.cluster.drivers.local import logs
from apps.cluster.drivers.local.runner.log import KEPT, Log


def whole(path: Path, step: int) -> str:
    text, offset = "", 0
    while True:
        chunk = logs.read(path, offset=offset, limit=step, ended=True)
        text, offset = text + chunk.text, chunk.next
        if chunk.eof:
            return text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200), st.integers(4, 50))
def test_pieces_make_the_whole_for_every_text_and_size(tmp_path: Path, text: str, step: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(text.encode())
    assert whole(path, step) == text


def test_what_is_no_text_is_shown_as_such(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x80\x80\x80\x80\x80\xff fine")
    assert whole(path, 4).endswith(" fine")


def test_half_a_character_is_left_for_later_while_the_program_runs(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("量".encode()[:2])
    path.write_bytes(b"a" + "量".encode()[:2])
    chunk = logs.read(path, offset=0, limit=100, ended=False)
    assert (chunk.text, chunk.next, chunk.eof) == ("a", 1, False)


def test_no_output_yet_is_empty_and_not_the_end(tmp_path: Path) -> None:
    chunk = logs.read(tmp_path / "none", offset=0, limit=10, ended=False)
    assert (chunk.text, chunk.eof) == ("", False)


def test_an_offset_beyond_the_end_stays_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"abc")
    chunk = logs.read(path, offset=50, limit=10, ended=True)
    assert (chunk.text, chunk.offset, chunk.next) == ("", 3, 3)


@pytest.fixture
def long_log(tmp_path: Path) -> tuple[Path, int]:
    """More than is kept, shortened by the runner's part; its path and size."""
    path = tmp_path / "log"
    log = Log(str(path))
    line = b"0123456789abcde\n"
    with path.open("ab") as file:
        file.write(line * (3 * KEPT // len(line)))
    log.shorten()
    os.close(log.changes)
    return path, path.stat().st_size


def test_a_long_log_keeps_its_end_and_gives_back_the_rest(long_log: tuple[Path, int]) -> None:
    path, size = long_log
    assert size == 3 * KEPT
    assert path.stat().st_blocks * 512 <= KEPT + 64 * 1024
    assert logs.read(path, offset=-16, limit=100, ended=True).text == "0123456789abcde\n"


def test_a_reader_of_what_was_given_up_goes_on_at_the_first_byte_kept(long_log: tuple[Path, int]) -> None:
    path, size = long_log
    chunk = logs.read(path, offset=0, limit=16, ended=True)
    assert chunk.offset == size - KEPT
    assert chunk.text == "0123456789abcde\n"


def test_the_last_lines_are_those_of_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {number}\n" for number in range(1000)))
    assert logs.last_lines(path, 2) == ["line 998", "line 999"]

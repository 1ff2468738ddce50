"""What the runner reports becomes the reason that people read."""

from pathlib import Path
from typing import Any

import pytest

from apps.cluster.drivers.local.ends import reason
from apps.core.reason_texts import CATALOGUE
from tests.unit.cluster.local.test_records import full

NO_LOG = Path("/nonexistent/log")


def report(**changes: Any) -> dict[str, Any]:
    plain = {"attempt": 2, "code": None, "signal": None, "failed": None, "out_of_memory_kills": 0, "at": 0.0}
    return plain | changes


def ended(found: dict[str, Any] | None, boot: str = "b") -> tuple[str, dict[str, Any]]:
    record = full()
    record.grace = None
    return reason(record, found, boot, NO_LOG)


@pytest.mark.parametrize(
    ("found", "code", "evidence"),
    [
        (report(code=0), "exited", {"exit_code": 0}),
        (report(code=3), "crashed", {"exit_code": 3}),
        (report(signal=9), "killed", {"signal": "SIGKILL"}),
        (report(signal=9, out_of_memory_kills=1), "out_of_memory_host", {"ram_bytes": 4 * 1024**3}),
        (report(), "lost", {}),
        (report(failed={"missing": True, "error": "", "errno": 2}), "environment_missing", {"environment": "notebook"}),
        (report(failed={"missing": False, "error": "no", "errno": 13}), "start_failed", {"problem": "no"}),
    ],
)
def test_each_way_to_end_has_its_reason(found: dict[str, Any], code: str, evidence: dict[str, Any]) -> None:
    got, facts = ended(found)
    assert got == code
    assert evidence.items() <= facts.items()
    assert got in CATALOGUE


def test_without_a_report_it_is_lost_or_went_down_with_the_machine() -> None:
    assert ended(None)[0] == "lost"
    assert ended(None, boot="another start")[0] == "host_shutdown"


def test_what_was_asked_to_end_ends_for_that_reason_however_it_took_it() -> None:
    record = full()
    record.end_reason = "host_shutdown"
    assert reason(record, report(signal=9), "b", NO_LOG) == ("host_shutdown", {})


def test_the_last_lines_of_the_log_go_with_a_crash(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback\nValueError: no\n")
    record = full()
    record.grace = None
    assert reason(record, report(code=1), "b", log)[1]["last_lines"] == ["Traceback", "ValueError: no"]

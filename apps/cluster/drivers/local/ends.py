"""From the runner's report to the reason that people read. Pure but for the last lines of the log."""

import signal
from pathlib import Path
from typing import Any

from apps.cluster.drivers.local.logs import last_lines
from apps.cluster.drivers.local.records import Record

Reason = tuple[str, dict[str, Any]]


def reason(record: Record, report: dict[str, Any] | None, boot: str, log: Path) -> Reason:
    """Why the run of `record` is gone. `report` None: its runner died with it; `boot` is this start of the machine."""
    if record.grace is not None:
        return record.end_reason, {}
    if report is None:
        return ("host_shutdown", {}) if record.boot != boot else ("lost", {"last_lines": last_lines(log)})
    if report["failed"]:
        return _not_started(record, report["failed"])
    if report["code"] == 0:
        return "exited", {"exit_code": 0}
    evidence = {"last_lines": last_lines(log)}
    if report["out_of_memory_kills"]:
        return "out_of_memory_host", {"ram_bytes": record.spec.resources.ram, **evidence}
    if report["signal"] is not None:
        return "killed", {"signal": _signal_name(report["signal"]), **evidence}
    if report["code"] is None:
        return "lost", evidence
    return "crashed", {"exit_code": report["code"], **evidence}


def _not_started(record: Record, failed: dict[str, Any]) -> Reason:
    if failed["missing"]:
        environment = record.spec.environment
        return "environment_missing", {"environment": environment, "command": record.spec.command[0]}
    return "start_failed", {"problem": failed["error"]}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)

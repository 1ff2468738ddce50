"""structlog's lines go the way of all others, and what nobody reads is not made."""

import logging
from typing import Any

import pytest
import structlog


class Costly:
    """Tells whether it was rendered."""

    def __init__(self) -> None:
        self.rendered = False

    def __repr__(self) -> str:
        self.rendered = True
        return "costly"


def test_a_line_has_its_event_its_fields_and_what_is_bound_to_the_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        structlog.get_logger("portal.tests").info("watch_failed", kind="pods", problem="100 % gone")
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("portal.tests", "INFO")
    assert line.getMessage() == "watch_failed kind='pods' problem='100 % gone' request_id='r-1'"


def test_a_trace_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        structlog.get_logger("portal.tests").exception("it_broke")
    (line,) = caplog.records
    assert line.exc_info is not None
    assert "ValueError: why" in caplog.text


@pytest.mark.parametrize("name", ["django_structlog.middlewares.request", "portal.tests"])
def test_what_is_below_the_level_is_not_rendered(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A request's beginning and end are such lines: two for each."""
    costly: Any = Costly()
    if name == "portal.tests":
        caplog.set_level(logging.WARNING, logger=name)
    structlog.get_logger(name).info("request_started", what=costly)
    assert not caplog.records
    assert not costly.rendered

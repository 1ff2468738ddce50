"""Log lines of structlog in the words of Python's own logging: `event key='value' …`, and the trace where there is one."""

from collections.abc import MutableMapping
from typing import Any, Final

from structlog.processors import KeyValueRenderer

_render: Final = KeyValueRenderer()
Call = tuple[tuple[str], dict[str, Any]]  # arguments for the logger


def as_line(logger: Any, method: str, event: MutableMapping[str, Any]) -> Call:
    """The last of structlog's processors."""
    trace = event.pop("exc_info", None)
    name = str(event.pop("event", ""))
    fields = str(_render(logger, method, event)) if event else ""
    return (f"{name} {fields}".rstrip(),), {"exc_info": trace}

"""Small facts about the request that is being answered."""

import structlog


def request_id() -> str:
    """The id under which the log knows this request; "" outside of one."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))

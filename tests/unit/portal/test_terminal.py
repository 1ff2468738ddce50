"""Which lines of the parts' output reach the terminal."""

import pytest

from portal.terminal import worth_showing


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-02 09:00:00,000 WARNING apps.workloads.visits: no answer",
        "2026-03-02 09:00:00,000 ERROR django.request: Internal Server Error: /",
        "ERROR:    Exception in ASGI application",
        "2026-03-02 09:00:00 [warning  ] agent_unavailable              problem='gone'",
        "2026-03-02 09:00:00 [error    ] run_unattended",
        "2026/03/02 09:00:00 [emerg] 1#1: bind() to 127.0.0.1:8001 failed (98: Address already in use)",
        "2026/03/02 09:00:00 [warn] 1#1: something",
        "Traceback (most recent call last):",
    ],
)
def test_what_somebody_should_see_is_shown(line: str) -> None:
    assert worth_showing(line)


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-02 09:00:00,000 INFO vcuda.node.agent: Ready",
        "2026-03-02 09:00:00 [info     ] request_finished code=200",
        "INFO:     Application startup complete.",
        "the word warning in a sentence, and an error in another",
        "",
    ],
)
def test_the_rest_is_for_the_log(line: str) -> None:
    assert not worth_showing(line)

"""Requests under ASGI: how often they change their thread, and that static files keep their headers."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext
from asgiref.testing import ApplicationCommunicator
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings

from portal.handler import Handler

STORAGE = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}


class Counting(ThreadPoolExecutor):
    """How often something was handed to its thread."""

    handed = 0

    def submit(self, *args: Any, **kwargs: Any) -> "Future[Any]":
        self.handed += 1
        return super().submit(*args, **kwargs)


@pytest.fixture
def thread() -> Iterator[Counting]:
    with Counting(max_workers=1) as executor:
        yield executor


async def ask(application: Any, path: str, thread: Counting) -> dict[str, Any]:
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }

    async def on_its_thread(scope: Any, receive: Any, send: Any) -> None:
        async with ThreadSensitiveContext(executor=thread):
            await application(scope, receive, send)

    talk = ApplicationCommunicator(on_its_thread, scope)
    await talk.send_input({"type": "http.request", "body": b""})
    start: dict[str, Any] = await talk.receive_output(timeout=10)
    while (await talk.receive_output(timeout=10)).get("more_body"):
        pass
    await talk.wait(timeout=10)
    return start


@pytest.mark.django_db(transaction=True)
async def test_a_request_goes_to_its_thread_once_to_begin_once_to_work_and_once_to_end(thread: Counting) -> None:
    answer = await ask(Handler(), "/api/healthz", thread)
    assert (answer["status"], thread.handed) == (200, 3)


@pytest.mark.django_db(transaction=True)
async def test_djangos_own_handler_goes_there_for_each_middleware(thread: Counting) -> None:
    """The control: what the one above is for."""
    answer = await ask(ASGIHandler(), "/api/healthz", thread)
    assert answer["status"] == 200
    assert thread.handed > 10


async def test_a_static_file_needs_no_thread_of_the_request_and_is_not_taken_for_another_type(
    thread: Counting, tmp_path: Path
) -> None:
    (tmp_path / "a.css").write_text("a {}")
    with override_settings(STATIC_ROOT=tmp_path, STORAGES=STORAGE, SERVESTATIC_USE_MANIFEST=False):
        handler = Handler()
    answer = await ask(handler, "/static/a.css", thread)
    headers = dict(answer["headers"])
    assert answer["status"] == 200
    assert headers[b"X-Content-Type-Options"] == b"nosniff"
    assert headers[b"Referrer-Policy"] == b"same-origin"
    assert headers[b"Content-Type"].startswith(b"text/css")
    assert thread.handed <= 2  # the begin and the end of Django's request

"""Django's handler of HTTP under ASGI, with each request's work in one go on one thread.

Django's own hands every middleware to the request's thread and back, before the view and after it: some twenty changes of thread, which
took twice as long as the work itself, and at each of them a busy interpreter may let somebody else go first.
"""

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from servestatic.middleware import ServeStaticMiddleware


class Handler(ASGIHandler):
    """Middleware and views are synchronous; answers may still be streams of an asynchronous source. Static files need no thread and no
    middleware: portal.static_files gives them their headers."""

    def __init__(self) -> None:
        super().__init__()
        self._files = convert_exception_to_response(ServeStaticMiddleware(self._answer))

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: ARG002 - asked to be asynchronous, it is not
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await self._files(request)  # type: ignore[misc] # the stubs know both kinds as one
        return response

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)

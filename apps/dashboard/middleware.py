"""Pages in the person's own language and time zone, and refusals as pages that say what happened, why, and what to do."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation
from django.utils.deprecation import MiddlewareMixin

from apps.accounts.models import User
from apps.core.errors import PortalError
from apps.dashboard.person import activate_zone, language_of


class PersonMiddleware(MiddlewareMixin):
    """Must come after authentication. Refusals below /api are the API's own to word."""

    get_response: Callable[[HttpRequest], HttpResponse]

    def process_request(self, request: HttpRequest) -> None:
        if isinstance(request.user, User) and request.user.language:
            translation.activate(language_of(request.user, ""))
            request.LANGUAGE_CODE = translation.get_language()
        activate_zone(request.COOKIES)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, PortalError) or request.path.startswith("/api/"):
            return None
        return refusal_page(request, exception)


def refusal_page(request: HttpRequest, error: PortalError) -> HttpResponse:
    return render(request, "refusal.html", {"error": error, "status": error.status}, status=error.status)

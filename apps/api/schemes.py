"""How the OpenAPI document speaks of the two ways to sign in. Imported by `ApiConfig.ready`.

Apart from the classes themselves, since REST framework loads those before drf-spectacular can be loaded.
"""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

from apps.api.authentication import BrowserSession, ScopedTokenAuthentication


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = ScopedTokenAuthentication
    name = "token"
    priority = 1  # before the extension that drf-spectacular ships for knox

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "tsr_…",
            "description": "A token from your account page.",
        }


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = BrowserSession
    name = "session"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": "tessera_session", "description": "Signed in by the pages."}

"""The server against its own description, with requests that nobody would write by hand: a few for each operation, both valid and not."""

from pathlib import Path
from typing import Any

import schemathesis
from django.conf import settings as django
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.server import Server

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


schema = schemathesis.openapi.from_path(Path(django.BASE_DIR) / "docs" / "openapi.yaml")  # test_schema: it is current


@schema.parametrize()
@settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_the_server_keeps_its_description(case: schemathesis.Case[Any], server: Server) -> None:
    case.call_and_validate(server.url, headers={"Authorization": f"Bearer {server.operator}"}, checks=CHECKS)

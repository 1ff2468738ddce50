"""docs/openapi.yaml is what the server says of itself, and says enough."""

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command

from apps.api.idempotency import HEADER

FILE = Path(settings.BASE_DIR) / "docs" / "openapi.yaml"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return loaded


def _operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, op) for path, ops in schema["paths"].items() for method, op in ops.items()]


def test_the_file_is_current() -> None:
    """Otherwise: manage.py spectacular --file docs/openapi.yaml"""
    fresh, warnings = StringIO(), StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=fresh, stderr=warnings)
    assert fresh.getvalue().strip() == FILE.read_text().strip()


def test_every_operation_says_what_it_does_and_which_scope_it_needs(schema: dict[str, Any]) -> None:
    for method, path, operation in _operations(schema):
        assert operation["summary"], (method, path)
        if path != "/api/v1/version":
            assert re.search(r"Scope: `[a-z:]+`\.", operation["description"]), (method, path)
            assert operation["responses"]["401"]["content"].keys() == {"application/problem+json"}


def test_every_post_takes_an_idempotency_key(schema: dict[str, Any]) -> None:
    posts = [operation for method, _path, operation in _operations(schema) if method == "post"]
    assert len(posts) >= 6
    for operation in posts:
        assert HEADER in {parameter["name"] for parameter in operation["parameters"]}


def test_operations_have_names_for_programs(schema: dict[str, Any]) -> None:
    names = [operation["operationId"] for _method, _path, operation in _operations(schema)]
    assert len(set(names)) == len(names)
    assert {"experiments_create", "experiments_stop", "tenants_quota_update", "me_retrieve"} <= set(names)


def test_enumerations_have_names_of_their_own(schema: dict[str, Any]) -> None:
    enums = {name for name, part in schema["components"]["schemas"].items() if "enum" in part}
    assert {"Phase", "Desired", "Role", "TenantKind", "Severity", "VerdictKind", "Scope"} <= enums
    assert not [name for name in enums if re.search(r"[0-9a-f]{3}Enum$", name)]


def test_amounts_carry_their_unit(schema: dict[str, Any]) -> None:
    for name, part in schema["components"]["schemas"].items():
        for field in part.get("properties", {}):
            assert field not in {"memory", "ram", "compute", "ceiling", "cpu", "time_limit"}, (name, field)

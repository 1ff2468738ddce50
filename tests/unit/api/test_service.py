"""Health, metrics, documentation: what surrounds the resources."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from apps.core import clock
from apps.workloads.models import Lease, Workload
from tests.factories import World
from tests.unit.api.conftest import Call, Caller


def test_the_version_is_open_and_a_dead_token_does_not_matter(db: None) -> None:
    for caller in (Caller(), Caller("tsr_dead")):
        assert caller.get("version").json() == {"version": settings.VERSION, "api": "v1"}


def test_alive_needs_no_database(client: Client) -> None:
    assert client.get("/api/healthz").json() == {"alive": True}


def test_ready_tells_of_the_controller(db: None, client: Client) -> None:
    assert client.get("/api/readyz").json() == {"ready": True, "database": True, "controller": False}
    Lease.objects.create(name="controller", holder="x", expires_at=clock.now() + timedelta(minutes=1))
    assert client.get("/api/readyz").json() == {"ready": True, "database": True, "controller": True}


def test_without_a_database_it_is_not_ready(db: None, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any, **_kwargs: Any) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr("apps.api.views.service.Lease.objects.filter", broken)
    answer = client.get("/api/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, False)


def _scrape(caller: Caller) -> Any:
    return caller.client.get(
        "/api/metrics", headers={"Authorization": f"Bearer {caller.token}", "Accept": "text/plain"}
    )


def test_prometheus_reads_the_platform_with_an_operators_token(world: World, experiment: Workload, call: Call) -> None:
    text = _scrape(call(world.operator)).content.decode()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["tessera_workloads", "admitted"] == 1
    assert samples["tessera_held_gpu_memory_bytes", world.lab.slug] == 8 * 2**30
    assert samples["tessera_gpu_memory_bytes", "H100", "here", "GPU-h100"] == 79 * 2**30
    assert not [key for key in samples if key[0] == "tessera_gpu_compute_used_permille"], "no figure is not zero"


def test_nobody_else_scrapes(world: World, call: Call) -> None:
    assert _scrape(call(world.auditor)).status_code == 200
    for caller in (call(world.manager), call(world.outsider), call(world.operator, "read")):
        assert _scrape(caller).status_code == 403
    assert Client().get("/api/metrics").status_code == 401


def test_the_documentation_has_nothing_inline_and_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/api/docs/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "style=" not in text
    assert "<style" not in text
    assert "<script>" not in text
    assert "http" not in text.replace('"http://testserver', "")
    assert "default-src 'none'" in page["Content-Security-Policy"]
    script = client.get("/api/docs/?script=")
    assert script["Content-Type"].startswith("application/javascript")


def test_the_schema_is_served(client: Client) -> None:
    answer = client.get("/api/openapi.yaml")
    assert answer.status_code == 200
    assert b"openapi: 3.1" in answer.content

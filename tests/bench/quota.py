"""Two hundred requests at once against a quota for ten: `python -m tests.bench.quota --out build/bench.jsonl`.

The control does what a careless portal would: look whether there is room, then write the claim, without holding anything in between.
TESSERA_DATABASE_URL chooses PostgreSQL (scripts/with_services.sh); otherwise SQLite.
"""

# ruff: noqa: E402 - Django must be set up before its models are imported
import argparse
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
os.environ["TESSERA_DATABASE_POOL"] = "220"  # every thread holds a connection while it waits for the others

import django

django.setup()

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from apps.core.errors import PortalError
from apps.experiments.services import request_experiment
from apps.quotas.models import Claim
from apps.quotas.selectors import headroom
from tests.factories import NO_GPU, World, tenant, world

REQUESTS, PLACES = 200, 10


def at_once(work: Callable[[int], None]) -> None:
    """REQUESTS threads, each with a database connection of its own, all let go at the same moment."""
    gate = threading.Barrier(REQUESTS)

    def one(number: int) -> None:
        try:
            gate.wait()
            work(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(REQUESTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ours(made: World) -> int:
    def ask(number: int) -> None:
        with suppress(PortalError):  # no room, and no place in the queue
            request_experiment(
                actor=made.member,
                tenant=made.lab,
                name=f"Request {number}",
                environment=made.environment,
                resources=NO_GPU,
            )

    at_once(ask)
    return Claim.objects.filter(tenant=made.lab, settled_at=None).count()


def careless(made: World) -> int:
    place = tenant("Careless", running=PLACES, pending=0)
    looked = threading.Barrier(REQUESTS)

    def look_then_write(number: int) -> None:
        line = next(line for line in headroom(place, made.member.user_id) if line.dimension == "running")
        looked.wait()
        if line.limit is not None and line.used < line.limit:
            Claim.objects.create(workload_id=uuid4(), run=1, tenant=place, owner_id=str(made.member.user_id))

    at_once(look_then_write)
    return Claim.objects.filter(tenant=place, settled_at=None).count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    call_command("migrate", verbosity=0)
    made = world(running=PLACES, pending=0)
    admitted, control = ours(made), careless(made)
    kind = "PostgreSQL" if "postgresql" in settings.DATABASES["default"]["ENGINE"] else "SQLite"
    figure = {
        "name": f"quota.over_admission.{kind.lower()}", "value": abs(admitted - PLACES), "unit": "requests", "bar": 0,
        "holds": admitted == PLACES, "control": max(control - PLACES, 0), "ratio_to": None, "ratio": None,
        "method": f"{REQUESTS} threads at once, room for {PLACES}, {kind}; the control looks first and writes then",
    }  # fmt: skip
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(figure) + "\n")
    print(f"{figure['name']}: {admitted} admitted of {REQUESTS} (room for {PLACES}); control admitted {control}")


if __name__ == "__main__":
    main()

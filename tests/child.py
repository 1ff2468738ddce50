"""Programs that tests start as processes of their own: `python -m tests.child JOB ARGUMENT...`, on the database of the test.

`start` passes the database on; the child sets Django up like any command of the portal and runs the job.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any


def start(job: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    """A running child; its output is a pipe."""
    from django.db import connection

    given = {**os.environ, **environment, "TESSERA_TEST_DATABASE": str(connection.settings_dict["NAME"])}
    command = [sys.executable, "-m", "tests.child", job, *arguments]
    return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True)


def _set_up() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    import django
    from django.conf import settings

    settings.DATABASES["default"]["NAME"] = os.environ["TESSERA_TEST_DATABASE"]
    django.setup()


def ask(tenant_id: str, user_id: str, environment_id: str, how_many: str) -> list[str]:
    """Request slices one after the other; the phases that they got."""
    from apps.accounts.models import User
    from apps.audit.context import Actor
    from apps.catalog.models import Environment
    from apps.experiments.services import request_experiment
    from apps.tenants.models import Tenant
    from tests.factories import SLICE

    wanted: dict[str, Any] = {
        "actor": Actor.person(User.objects.get(id=user_id)),
        "tenant": Tenant.objects.get(id=tenant_id),
        "environment": Environment.objects.get(id=environment_id),
        "resources": SLICE,
    }
    return [request_experiment(name=f"{os.getpid()}-{number}", **wanted).phase for number in range(int(how_many))]


def control() -> None:
    """`manage.py run_controller`, as it is."""
    from django.core.management import call_command

    call_command("run_controller")


if __name__ == "__main__":
    _set_up()
    job, arguments = sys.argv[1], sys.argv[2:]
    jobs: dict[str, Callable[..., object]] = {"ask": ask, "control": control}
    print(json.dumps(jobs[job](*arguments)), flush=True)

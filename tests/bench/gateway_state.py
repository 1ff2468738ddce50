"""Makes the state of one gateway for the benchmark (in TESSERA_STATE) and prints, with tabs between: host, cookie, account
number or nothing, and nginx's command line.
"""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from importlib import import_module  # noqa: E402 - settings first

from django.conf import settings  # noqa: E402
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY  # noqa: E402
from django.core.management import call_command  # noqa: E402

from apps.accounts.models import User  # noqa: E402
from apps.core.ids import new_id  # noqa: E402
from apps.core.slugs import slug_for  # noqa: E402
from apps.gateway import cookies, nginx, services  # noqa: E402
from apps.workloads.models import Phase, Workload  # noqa: E402
from tests import factories  # noqa: E402


def main() -> None:
    call_command("migrate", verbosity=0)
    world = factories.world()
    user, number = world.member.user, new_id()
    assert isinstance(user, User)
    workload = Workload.objects.create(
        id=number, kind="experiment", name="bench", slug=slug_for("bench", number), owner=user, tenant=world.lab,
        environment=world.environment, phase=Phase.READY,
    )  # fmt: skip
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    ticket = services.issue_ticket(
        actor=world.member, user=user, workload=workload, session_key=session.session_key, page=""
    )
    entry = services.redeem_ticket(slug=workload.slug, ticket=ticket)
    assert entry is not None
    command = nginx.prepare(settings.GATEWAY_DIR, listen=f"127.0.0.1:{settings.GATEWAY_PORT}")
    settings.STATE_DIR.chmod(0o711)
    host = f"{workload.slug}.{settings.GATEWAY_DOMAIN}"
    account = "" if command.account is None else str(command.account)
    print("\t".join([host, f"{cookies.name()}={entry.secret}", account, *command.argv]))


if __name__ == "__main__":
    main()

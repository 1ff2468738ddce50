"""Makes an API token for a person from the command line: for unattended installations. The secret is printed once, alone on a line."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts import services
from apps.accounts.models import User
from apps.accounts.scopes import SCOPES
from apps.audit.context import Actor
from apps.core.errors import PortalError


class Command(BaseCommand):
    help = "Make an API token and print its secret, once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--name", default="command line", help="to know it again in the list of tokens")
        parser.add_argument(
            "--scope", action="append", choices=sorted(SCOPES), help="repeat for several; default: read"
        )
        parser.add_argument("--days", type=int, default=30, help="life of the token (default 30)")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active person {options['username']!r}.")
        try:
            _, secret = services.create_token(
                actor=Actor.system("command line"),
                user=user,
                name=options["name"],
                scopes=options["scope"] or ["read"],
                expires_in=timedelta(days=options["days"]),
            )
        except PortalError as error:
            raise CommandError(f"{error.message} {error.fields}") from error
        self.stdout.write(secret)

"""Looks at the cluster once and says what was found: for the shell, before and after an installation. Ends with 1 where something cannot work."""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.api.serializers.platform import DiagnosisSerializer
from apps.cluster import services as cluster
from apps.cluster.diagnosis import Diagnosis, Level
from apps.core.reasons import explain

_MARKS = {Level.GOOD: "ok", Level.ATTENTION: "!", Level.BAD: "!!", Level.UNKNOWN: "?"}


class Command(BaseCommand):
    help = "Say whether the cluster is as Tessera needs it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="as GET /api/v1/cluster/diagnosis answers")

    def handle(self, *args: Any, **options: Any) -> None:
        found = cluster.diagnose()
        if found is None:
            raise CommandError("This driver has no cluster to look at.")
        if options["json"]:
            self.stdout.write(json.dumps(DiagnosisSerializer(found).data, indent=2, ensure_ascii=False))
        else:
            self._say(found)
        if found.count(Level.BAD):
            sys.exit(1)

    def _say(self, found: Diagnosis) -> None:
        for one in found.findings:
            told = explain(one.code, one.evidence)
            self.stdout.write(f"{_MARKS[one.level]:>2}  {told.title}. {told.text}")
            if one.level is not Level.GOOD:
                for more in filter(None, (told.action, one.command)):
                    self.stdout.write(f"      {more}")
        counts = ", ".join(f"{found.count(level)} {level.value}" for level in Level)
        self.stdout.write(f"{counts}. Settings and reasons: docs/operations/kubernetes.md")

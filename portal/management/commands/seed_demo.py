"""A department with two tenants, five people, quotas and choices, so that a fresh start has something to look at. Safe to repeat."""

import json
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

from apps.accounts import services as accounts
from apps.accounts.models import PlatformRole, User
from apps.audit.context import Actor
from apps.catalog import services as catalog
from apps.catalog.models import Environment, Flavour
from apps.core.share import GIB
from apps.quotas import services as quotas
from apps.quotas.models import Quota
from apps.tenants import services as tenants
from apps.tenants.models import Role, Tenant, TenantKind

SEED = Actor.system("Tessera (demo)")
PEOPLE = (
    ("admin", "Ada Operator", PlatformRole.OPERATOR),
    ("mei", "Mei 李梅", PlatformRole.NONE),
    ("lin", "Lin 林涛", PlatformRole.NONE),
    ("tom", "Tom Baker", PlatformRole.NONE),
    ("otto", "Otto Outsider", PlatformRole.NONE),
)
WHAT_THEY_ARE = {
    "admin": "operator of the platform",
    "mei": "manager of Vision Lab",
    "lin": "member of Vision Lab",
    "tom": "member of Speech Lab",
    "otto": "belongs to no tenant",
}
MEMBERS = (("vision-lab", "mei", Role.MANAGER), ("vision-lab", "lin", Role.MEMBER), ("speech-lab", "tom", Role.MEMBER))
QUOTAS: dict[str, dict[str, int | None]] = {
    "research": {"gpu_memory": 110 * GIB, "gpu_compute": 1800},
    "vision-lab": {
        "gpu_memory": 80 * GIB, "gpu_compute": 1200, "cpu_milli": 16_000, "ram": 64 * GIB,
        "running": 6, "running_per_user": 3, "pending": 10,
    },
    "speech-lab": {
        "gpu_memory": 48 * GIB, "gpu_compute": 800, "cpu_milli": 8_000, "ram": 32 * GIB,
        "running": 4, "running_per_user": 2, "pending": 5,
    },
}  # fmt: skip
FLAVOURS: tuple[dict[str, Any], ...] = (
    {
        "slug": "small", "name": "Small slice", "name_zh": "小份", "position": 10,
        "description": "For trying things out and small models.", "description_zh": "适合试验和小模型。",
        "gpu_memory": 4 * GIB, "gpu_compute": 100, "gpu_ceiling": 300, "cpu_milli": 1000, "ram": 2 * GIB,
    },
    {
        "slug": "medium", "name": "Medium slice", "name_zh": "中份", "position": 20,
        "description": "For everyday development.", "description_zh": "适合日常开发。",
        "gpu_memory": 8 * GIB, "gpu_compute": 300, "gpu_ceiling": 300, "cpu_milli": 2000, "ram": 4 * GIB,
    },
    {
        "slug": "large", "name": "Large slice", "name_zh": "大份", "position": 30,
        "description": "For fine-tuning and long runs.", "description_zh": "适合微调和长时间运行。",
        "gpu_memory": 20 * GIB, "gpu_compute": 600, "gpu_ceiling": 600, "cpu_milli": 4000, "ram": 8 * GIB,
    },
    {
        "slug": "whole", "name": "Whole GPU", "name_zh": "整卡", "position": 40,
        "description": "A GPU to yourself, with all of its memory.", "description_zh": "独占一张 GPU 及其全部显存。",
        "gpu_memory": 40 * GIB, "gpu_compute": 1000, "gpu_ceiling": 1000, "cpu_milli": 6000, "ram": 12 * GIB,
    },
    {
        "slug": "cpu", "name": "CPU only", "name_zh": "仅 CPU", "position": 50,
        "description": "For preparing data; takes no GPU.", "description_zh": "适合准备数据，不占用 GPU。",
        "gpu_count": 0, "cpu_milli": 2000, "ram": 2 * GIB,
    },
)  # fmt: skip


def accounts_file() -> Path:
    return Path(settings.STATE_DIR) / "demo-accounts.json"


def _passwords() -> dict[str, str]:
    """Random, made once, kept for the next run in a file that only its owner reads."""
    path = accounts_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    kept: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    wanted = {username: kept.get(username) or secrets.token_urlsafe(12) for username, _name, _role in PEOPLE}
    if wanted != kept:
        fresh = path.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            json.dump(wanted, file, indent=1)
        fresh.replace(path)
    return wanted


class Command(BaseCommand):
    help = "Make the demo department, people, quotas and choices; repeat it as often as you like."

    def handle(self, *_args: Any, **_options: Any) -> None:
        with transaction.atomic():
            self._people(_passwords())
            self._tenants()
            self._catalogue()
        for username, what in WHAT_THEY_ARE.items():
            self.stdout.write(f"{username:8} {what}")
        self.stdout.write(f"Passwords: {accounts_file()}")

    def _people(self, passwords: dict[str, str]) -> None:
        for username, display_name, role in PEOPLE:
            user = User.objects.filter(username=username).first()
            if user is None:
                accounts.create_user(
                    actor=SEED,
                    username=username,
                    password=passwords[username],
                    display_name=display_name,
                    platform_role=role,
                )
            elif not user.check_password(passwords[username]):
                accounts.set_password(actor=SEED, user=user, password=passwords[username])

    def _tenants(self) -> None:
        top = _tenant("research", "Research", TenantKind.DEPARTMENT, None)
        made = {"research": top}
        for slug, name in (("vision-lab", "Vision Lab"), ("speech-lab", "Speech Lab")):
            made[slug] = _tenant(slug, name, TenantKind.TENANT, top)
        for slug, username, role in MEMBERS:
            if not made[slug].memberships.filter(user__username=username).exists():
                tenants.set_member(actor=SEED, tenant=made[slug], user=User.objects.get(username=username), role=role)
        for slug, limits in QUOTAS.items():
            if not Quota.objects.filter(tenant=made[slug]).exists():
                quotas.set_quota(actor=SEED, tenant=made[slug], limits=limits)

    def _catalogue(self) -> None:
        if not Environment.objects.filter(slug="notebook").exists():
            catalog.upsert_environment(
                actor=SEED, slug="notebook", kind="experiment", key="notebook", name="JupyterLab", name_zh="JupyterLab",
                description="Python, NumPy and CUDA Python, with a welcome notebook.",
                description_zh="内置 Python、NumPy 与 CUDA Python，附入门笔记本。", position=10,
            )  # fmt: skip
        for flavour in FLAVOURS:
            if not Flavour.objects.filter(slug=flavour["slug"]).exists():
                catalog.upsert_flavour(actor=SEED, **flavour)


def _tenant(slug: str, name: str, kind: str, parent: Tenant | None) -> Tenant:
    found = Tenant.objects.filter(slug=slug).first()
    return found or tenants.create_tenant(actor=SEED, slug=slug, name=name, kind=kind, parent=parent)

"""Rows for tests. `World` is the usual set of people: an operator, a manager, a member, a colleague, somebody of another tenant, an outsider."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from apps.accounts.models import PlatformRole, User
from apps.audit.context import Actor
from apps.catalog.models import Environment, Flavour
from apps.core.share import GIB, GpuShare, Resources
from apps.quotas.models import Quota
from apps.tenants.models import Membership, Role, Tenant, TenantKind

_numbers = count(1)
SLICE = Resources(GpuShare(1, 8 * GIB, 300, 300), 1000, 2 * GIB)  # one card's 8 GiB and 30 %
NO_GPU = Resources(None, 1000, 2 * GIB)


def user(username: str = "", **fields: Any) -> User:
    """Signs in through `client.force_login` only: hashing a password takes time that most tests need not spend."""
    made = User(username=username or f"person-{next(_numbers)}", **fields)
    made.set_unusable_password()
    made.save()
    return made


def tenant(
    name: str = "", *, parent: Tenant | None = None, kind: str = TenantKind.TENANT, **limits: int | None
) -> Tenant:
    """With a quota of exactly `limits`, where any are given: what is not named has no limit."""
    number = next(_numbers)
    made = Tenant.objects.create(name=name or f"Tenant {number}", slug=f"t-{number}", parent=parent, kind=kind)
    if limits:
        quota(made, **limits)
    return made


def department(name: str = "", **limits: int | None) -> Tenant:
    return tenant(name, parent=None, kind=TenantKind.DEPARTMENT, **limits)


def quota(of: Tenant, **limits: int | None) -> Quota:
    return Quota.objects.update_or_create(tenant=of, defaults=limits)[0]


def member(of: Tenant, who: User, role: str = Role.MEMBER) -> Membership:
    return Membership.objects.create(tenant=of, user=who, role=role)


def environment(slug: str = "notebook", **fields: Any) -> Environment:
    defaults = {"name": "JupyterLab", "key": "notebook", **fields}
    return Environment.objects.get_or_create(slug=slug, defaults=defaults)[0]


def flavour(slug: str = "medium", resources: Resources = SLICE, **fields: Any) -> Flavour:
    gpu = resources.gpu
    share = (gpu.count, gpu.memory, gpu.compute, gpu.ceiling) if gpu else (0, 0, 0, 0)
    names = ("gpu_count", "gpu_memory", "gpu_compute", "gpu_ceiling")
    amounts = dict(zip(names, share, strict=True), cpu_milli=resources.cpu_milli, ram=resources.ram)
    return Flavour.objects.create(slug=slug, **{"name": slug.title(), **amounts, **fields})


@dataclass
class World:
    """Research has Vision (`lab`) and Speech (`other_lab`)."""

    department: Tenant
    lab: Tenant
    other_lab: Tenant
    environment: Environment
    operator: Actor
    auditor: Actor
    head: Actor  # manager of the department
    manager: Actor  # of the lab
    member: Actor  # of the lab: the usual asker
    colleague: Actor  # another member of the lab
    viewer: Actor  # of the lab
    stranger: Actor  # member of the other lab
    outsider: Actor  # of nothing


def world(**limits: int | None) -> World:
    """`limits` are the lab's quota: 40 GiB, 1000 ‰ and two places a person unless said otherwise."""
    top = department("Research")
    usual: dict[str, int | None] = {"gpu_memory": 40 * GIB, "gpu_compute": 1000, "running_per_user": 2}
    lab = tenant("Vision Lab", parent=top, kind=TenantKind.TENANT, **(limits or usual))
    other = tenant("Speech Lab", parent=top, gpu_memory=40 * GIB, gpu_compute=1000)
    people = {name: user(name) for name in ("head", "manager", "member", "colleague", "viewer", "stranger", "outsider")}
    operator = user("operator", platform_role=PlatformRole.OPERATOR)
    auditor = user("auditor", platform_role=PlatformRole.AUDITOR)
    member(top, people["head"], Role.MANAGER)
    member(lab, people["manager"], Role.MANAGER)
    member(lab, people["member"])
    member(lab, people["colleague"])
    member(lab, people["viewer"], Role.VIEWER)
    member(other, people["stranger"])
    actors = {name: Actor.person(person) for name, person in people.items()}
    return World(top, lab, other, environment(), Actor.person(operator), Actor.person(auditor), **actors)

"""Changes what can be chosen. Operators only; every change is audited."""

from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from apps.audit import services as audit
from apps.audit.context import Actor
from apps.catalog.models import Described, Environment, Flavour
from apps.core.errors import InvalidInput, NotPermitted

_ENVIRONMENT = ("name", "name_zh", "description", "description_zh", "position", "is_active", "kind", "key")
_FLAVOUR = (
    *("name", "name_zh", "description", "description_zh", "position", "is_active"),
    *("gpu_count", "gpu_memory", "gpu_compute", "gpu_ceiling", "cpu_milli", "ram"),
)
Choice = TypeVar("Choice", Environment, Flavour)


def upsert_environment(*, actor: Actor, slug: str, **fields: Any) -> Environment:
    """Make or change the environment with this slug; fields not named stay."""
    return _upsert(actor, Environment, _ENVIRONMENT, slug, fields)


def upsert_flavour(*, actor: Actor, slug: str, **fields: Any) -> Flavour:
    """Make or change the flavour with this slug; fields not named stay. Running workloads keep what they have."""
    return _upsert(actor, Flavour, _FLAVOUR, slug, fields)


@transaction.atomic
def _upsert(actor: Actor, model: type[Choice], known: tuple[str, ...], slug: str, fields: dict[str, Any]) -> Choice:
    if not actor.is_operator:
        raise NotPermitted(_("Only operators change the catalogue."))
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise InvalidInput(_("There is no such field."), fields=dict.fromkeys(unknown, _("Unknown.")))
    row = model.objects.select_for_update().filter(slug=slug).first()
    before = {name: getattr(row, name) for name in fields} if row else {}
    if row is not None and before == fields:
        return row
    row = row or model(slug=slug)
    for name, value in fields.items():
        setattr(row, name, value)
    _check(row)
    row.save()
    audit.record(actor=actor, verb=f"{model._meta.model_name}.set", target=row, before=before, after=fields)
    return row


def _check(row: Described) -> None:
    try:
        row.full_clean()
        if isinstance(row, Flavour):
            row.resources  # noqa: B018 - raises where the numbers are no share
    except ValidationError as error:
        raise InvalidInput(
            _("This choice cannot be kept so."), fields={k: v[0] for k, v in error.message_dict.items()}
        ) from error
    except ValueError as error:
        raise InvalidInput(str(error), fields={"gpu_compute": str(error)}) from error

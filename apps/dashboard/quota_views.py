"""Lines of a quota as the pages show them: words, amounts in their unit, and a bar."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.core import units
from apps.dashboard.bars import QuotaBar
from apps.quotas.selectors import Line
from apps.tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class QuotaLine:
    dimension: str
    label: str
    used: str
    limit: str | None
    bar: QuotaBar
    added: str = ""
    of: str = ""  # the node whose limit it is, where it is not the tenant's own


def quota_line(line: Line, tenant: Tenant, *, before: Line | None = None) -> QuotaLine:
    """`line` as it is; with `before` as it was, `line` is what it becomes and the difference is shown as added."""
    now = before or line
    added = line.used - now.used
    return QuotaLine(
        dimension=line.dimension,
        label=str(units.DIMENSIONS[line.dimension].label),
        used=units.format_amount(line.dimension, now.used),
        limit=None if line.limit is None else units.format_amount(line.dimension, line.limit),
        bar=QuotaBar(now.used, line.limit, added),
        added=units.format_amount(line.dimension, added) if added else "",
        of="" if line.tenant_id == tenant.id else line.of_tenant,
    )


def quota_lines(lines: Iterable[Line], tenant: Tenant) -> list[QuotaLine]:
    """Those that say something: limited, or in use."""
    return [quota_line(line, tenant) for line in lines if line.limit is not None or line.used]


def changed_lines(after: Iterable[Line], before: Iterable[Line], tenant: Tenant) -> list[QuotaLine]:
    """What a request would make of the quota."""
    known = {line.dimension: line for line in before}
    return [
        quota_line(line, tenant, before=known.get(line.dimension))
        for line in after
        if line.limit is not None or line.used
    ]

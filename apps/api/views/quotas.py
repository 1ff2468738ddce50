"""The quota of a tenant or department."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.scopes import QUOTAS_WRITE
from apps.api.names import DIMENSIONS, DOMAIN
from apps.api.problems import PreconditionFailed
from apps.api.serializers.tenants import DryRunQuery, QuotaPutSerializer, QuotaSerializer
from apps.api.views.base import IF_MATCH, ResourceView, check_if_match, etag, reads
from apps.api.views.lookup import tenant_at
from apps.core.errors import Conflict
from apps.quotas import ledger, selectors, services
from apps.quotas.models import Quota
from apps.quotas.selectors import Line
from apps.tenants import policies
from apps.tenants.models import Tenant


class QuotaView(ResourceView):
    write_scope = QUOTAS_WRITE

    @extend_schema(summary="Show a tenant's quota and what is held of it", responses=QuotaSerializer)
    def retrieve(self, request: Request, slug: str) -> Response:
        tenant = tenant_at(self.actor, slug)
        return self._shown(tenant, selectors.quota_of(tenant), selectors.lines(tenant))

    @reads(DryRunQuery)
    @extend_schema(
        summary="Replace a tenant's quota", request=QuotaPutSerializer, responses=QuotaSerializer, parameters=[IF_MATCH]
    )
    def update(self, request: Request, slug: str) -> Response:
        """All limits are named; null is no limit. With `dry_run=true` it shows the effect and changes nothing."""
        return self._set(request, slug, partial=False)

    @reads(DryRunQuery)
    @extend_schema(
        summary="Change some limits", request=QuotaPutSerializer, responses=QuotaSerializer, parameters=[IF_MATCH]
    )
    def partial_update(self, request: Request, slug: str) -> Response:
        """Limits that are not named stay."""
        return self._set(request, slug, partial=True)

    def _set(self, request: Request, slug: str, *, partial: bool) -> Response:
        tenant = tenant_at(self.actor, slug)
        policies.may_set_quota(self.actor, tenant)
        seen = selectors.quota_of(tenant)
        version = seen.version if seen else 0
        dry_run = self.query["dry_run"]
        limits = self._limits(request, tenant, seen, partial=partial)
        check_if_match(request, version, required=not dry_run)
        try:
            effect = services.set_quota(
                actor=self.actor, tenant=tenant, limits=limits, expected_version=version, dry_run=dry_run
            )
        except Conflict as error:  # somebody was faster, between our reading and the lock
            raise PreconditionFailed(error.message, code=error.code, evidence=error.evidence) from None
        quota = Quota(tenant=tenant, version=effect.version, **effect.after)
        return self._shown(tenant, quota, effect.lines, dry_run=dry_run)

    @staticmethod
    def _limits(request: Request, tenant: Tenant, seen: Quota | None, *, partial: bool) -> dict[str, int | None]:
        """By the domain's names. Where no quota was set yet, what a PATCH leaves out stays closed, not "no limit"."""
        body = QuotaPutSerializer(data=request.data, partial=partial)
        body.is_valid(raise_exception=True)
        given = {DOMAIN[name]: value for name, value in body.validated_data.get("limits", {}).items()}
        if seen is not None:
            return given
        unset = ledger.limits_of(tenant, None)
        return {name: getattr(unset, name) for name in DIMENSIONS} | given

    def _shown(self, tenant: Tenant, quota: Quota | None, lines: list[Line], *, dry_run: bool = False) -> Response:
        limits = ledger.limits_of(tenant, quota)
        shown = {
            "tenant": tenant,
            "version": quota.version if quota else 0,
            "limits": {here: getattr(limits, there) for there, here in DIMENSIONS.items()},
            "lines": lines,
            "above": [
                DIMENSIONS[line.dimension] for line in lines if line.limit is not None and line.used > line.limit
            ],
            "dry_run": dry_run,
        }
        return self.reply(QuotaSerializer, shown, headers={"ETag": etag(shown["version"])})

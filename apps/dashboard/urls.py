"""Addresses of the pages."""

from django.urls import path

from apps.dashboard.views import account, actions, differences, experiments, home, manage, resizing, tenants

urlpatterns = [
    path("", home.home, name="home"),
    path("search/", home.search, name="search"),
    path("language/", home.language, name="language"),
    path("live/snapshot", home.live_poll, name="live-poll"),
    path("experiments/", experiments.experiment_list, name="experiments"),
    path("experiments/new/", experiments.new, name="experiment-new"),
    path("experiments/new/verdict/", experiments.verdict, name="experiment-verdict"),
    path("experiments/<uuid:workload_id>/", experiments.detail, name="experiment"),
    path("experiments/<uuid:workload_id>/terminal/", experiments.terminal, name="experiment-terminal"),
    path("experiments/<uuid:workload_id>/stop/", actions.stop, name="experiment-stop"),
    path("experiments/<uuid:workload_id>/start/", actions.start, name="experiment-start"),
    path("experiments/<uuid:workload_id>/extend/", actions.extend, name="experiment-extend"),
    path("experiments/<uuid:workload_id>/resize/", resizing.resize, name="experiment-resize"),
    path("experiments/<uuid:workload_id>/resize/verdict/", resizing.verdict, name="experiment-resize-verdict"),
    path("experiments/<uuid:workload_id>/rename/", actions.rename, name="experiment-rename"),
    path("experiments/<uuid:workload_id>/delete/", actions.delete, name="experiment-delete"),
    path("experiments/<uuid:workload_id>/log.txt", actions.log, name="experiment-log"),
    path("tenants/", tenants.tenant_list, name="tenants"),
    path("tenants/<slug:slug>/", tenants.tenant_page, name="tenant"),
    path("tenants/<slug:slug>/members/", tenants.set_member, name="tenant-member"),
    path("tenants/<slug:slug>/members/<uuid:user_id>/remove/", tenants.remove_member, name="tenant-member-remove"),
    path("tenants/<slug:slug>/quota/", tenants.set_quota, name="tenant-quota"),
    path("tenants/<slug:slug>/quota/effect/", tenants.quota_effect, name="tenant-quota-effect"),
    path("cluster/", manage.cluster, name="cluster"),
    path("cluster/differences/", differences.difference_list, name="differences"),
    path("cluster/differences/<slug:key>/<slug:repair>/", differences.repair, name="difference-repair"),
    path("workloads/", manage.workload_list, name="workloads"),
    path("workloads/stop/", manage.bulk_stop, name="bulk-stop"),
    path("audit/", manage.audit_trail, name="audit"),
    path("account/", account.account, name="account"),
    path("account/preferences/", account.preferences, name="preferences"),
    path("account/tokens/", account.create_token, name="token-create"),
    path("account/tokens/<uuid:token_id>/revoke/", account.revoke_token, name="token-revoke"),
]

"""Every address of the portal, by part."""

from django.urls import include, path

urlpatterns = [
    path("api/", include("apps.api.urls")),
    path("open/", include("apps.gateway.urls")),
    path("account/", include("allauth.account.urls")),
    path("", include("apps.dashboard.urls")),
]

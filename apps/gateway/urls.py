from django.urls import path

from apps.gateway import views

app_name = "gateway"
urlpatterns = [
    path("<uuid:workload_id>/", views.open_by_id, name="open"),
    path("<slug:slug>/", views.open_by_slug, name="open-by-slug"),
]

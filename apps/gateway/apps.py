from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "apps.gateway"
    label = "gateway"

    def ready(self) -> None:
        from apps.gateway import probe
        from apps.workloads import reach

        reach.register(probe.visit)

from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "apps.experiments"
    label = "experiments"

    def ready(self) -> None:
        from apps.experiments.kind import KIND
        from apps.workloads import kinds

        kinds.register(KIND)

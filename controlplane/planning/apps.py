from django.apps import AppConfig


class PlanningConfig(AppConfig):
    name = "controlplane.planning"
    verbose_name = "Planning"

    def ready(self) -> None:
        from controlplane.planning import demo, refresh  # noqa: F401  (they register their kinds of job)

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PlanningConfig(AppConfig):
    name = "controlplane.planning"
    verbose_name = "Planning"

    def ready(self) -> None:
        from controlplane.planning import demo, refresh  # noqa: F401  (they register their kinds of job)
        from controlplane.planning.benchmark import run  # noqa: F401
        from controlplane.planning.rights import make_group

        post_migrate.connect(make_group, sender=self)

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class LaneConfig(AppConfig):
    name = "controlplane.lane"
    verbose_name = "Batches"

    def ready(self) -> None:
        from controlplane.lane.rights import make_group

        post_migrate.connect(make_group, sender=self)

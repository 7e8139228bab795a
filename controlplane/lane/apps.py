from django.apps import AppConfig


class LaneConfig(AppConfig):
    name = "controlplane.lane"
    verbose_name = "Batches"

    def ready(self) -> None:
        from controlplane.lane.backlog import open_work
        from controlplane.planning.open_work import register

        register(open_work)

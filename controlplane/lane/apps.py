from django.apps import AppConfig


class LaneConfig(AppConfig):
    name = "controlplane.lane"
    verbose_name = "Batches"

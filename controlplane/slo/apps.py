from django.apps import AppConfig


class SloConfig(AppConfig):
    name = "controlplane.slo"
    verbose_name = "Objectives"

from django.apps import AppConfig


class OpenSLOConfig(AppConfig):
    name = "controlplane.slo.openslo"
    label = "openslo"
    verbose_name = "Objectives as code"

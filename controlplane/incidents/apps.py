from django.apps import AppConfig


class IncidentsConfig(AppConfig):
    name = "controlplane.incidents"
    verbose_name = "Incidents"

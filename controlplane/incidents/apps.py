from django.apps import AppConfig
from django.db.models.signals import post_migrate


class IncidentsConfig(AppConfig):
    name = "controlplane.incidents"
    verbose_name = "Incidents"

    def ready(self) -> None:
        from controlplane.fleet import changes as said
        from controlplane.incidents.act.rights import make_group
        from controlplane.incidents.notify import changes

        said.made.connect(changes.take)
        post_migrate.connect(make_group, sender=self)

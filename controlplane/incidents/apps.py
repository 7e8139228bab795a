from django.apps import AppConfig


class IncidentsConfig(AppConfig):
    name = "controlplane.incidents"
    verbose_name = "Incidents"

    def ready(self) -> None:
        from controlplane.accounts.login.break_glass import broken
        from controlplane.fleet import changes as said
        from controlplane.incidents.notify import changes

        said.made.connect(changes.take)
        broken.connect(changes.broke_the_glass)

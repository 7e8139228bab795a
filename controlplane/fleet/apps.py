from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "controlplane.fleet"
    verbose_name = "Fleet"

    def ready(self) -> None:
        from controlplane.accounts import admin_parts
        from controlplane.fleet import publish, without_models
        from controlplane.fleet.files import revisions

        publish.connect()
        without_models.connect()
        revisions.connect()
        admin_parts.elsewhere.append(revisions.managed_elsewhere)

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AuditConfig(AppConfig):
    name = "controlplane.audit"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from controlplane.audit.listing import make_group
        from controlplane.audit.middleware import connect_logins
        from controlplane.audit.recorded import connect

        post_migrate.connect(make_group, sender=self, dispatch_uid="audit group")
        connect()
        connect_logins()

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "controlplane.audit"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from controlplane.audit.audited_models import connect
        from controlplane.audit.middleware import connect_logins

        connect()
        connect_logins()

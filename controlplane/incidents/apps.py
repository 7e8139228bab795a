from django.apps import AppConfig
from django.db.models.signals import post_save


class IncidentsConfig(AppConfig):
    name = "controlplane.incidents"
    verbose_name = "Incidents"

    def ready(self) -> None:
        from controlplane.accounts.login.break_glass import broken
        from controlplane.audit.models import Entry
        from controlplane.fleet import changes as said
        from controlplane.incidents.notify import changes
        from controlplane.incidents.notify.delivery import outbox

        said.made.connect(changes.take)
        post_save.connect(outbox.put_entry, sender=Entry, dispatch_uid="audit to destinations")
        broken.connect(changes.broke_the_glass)

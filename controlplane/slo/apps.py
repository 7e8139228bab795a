from django.apps import AppConfig


class SloConfig(AppConfig):
    name = "controlplane.slo"
    verbose_name = "Objectives"

    def ready(self) -> None:
        from controlplane.accounts.core.actions import EDIT_OBJECTIVES
        from controlplane.core.acting import acts
        from controlplane.fleet.files import kinds, revisions
        from controlplane.slo.models import Maintenance, StoredObjective
        from controlplane.slo.save import revise

        kinds.add(
            kinds.Kind(
                "Objective",
                StoredObjective,
                returns="missing",
                named="slug",
                edits=EDIT_OBJECTIVES,
                saved=lambda row: revise(row, acts() or "files"),
            ),
            kinds.Kind(
                "Maintenance",
                Maintenance,
                returns="missing",
                named="slug",
                edits=EDIT_OBJECTIVES,
                saved=kinds.authored,
                kept=Maintenance.why_kept,
            ),
        )
        revisions.connect()

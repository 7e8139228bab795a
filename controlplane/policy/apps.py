from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PolicyConfig(AppConfig):
    name = "controlplane.policy"
    verbose_name = "Policies"

    def ready(self) -> None:
        from controlplane.policy.preview import job  # noqa: F401  (registers the job)
        from controlplane.policy.rights import make_groups

        post_migrate.connect(make_groups, sender=self)

from django.apps import AppConfig


class PolicyConfig(AppConfig):
    name = "controlplane.policy"
    verbose_name = "Policies"

    def ready(self) -> None:
        from controlplane.policy.preview import job, proposal  # noqa: F401  (register the jobs)

        proposal.connect()

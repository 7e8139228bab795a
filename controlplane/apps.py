from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Weir"

    def ready(self) -> None:
        from controlplane import checks  # noqa: F401  (registers them)

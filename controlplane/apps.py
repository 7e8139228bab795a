import gc
from types import ModuleType

from django.apps import AppConfig

from inference.contract.settings import names


class ControlPlaneConfig(AppConfig):
    """The first of all apps: from here until it is ready, the models of all are imported."""

    name = "controlplane"
    verbose_name = "Weir"

    def __init__(self, app_name: str, app_module: ModuleType) -> None:
        gc.disable()  # it would walk again and again what stays, for a fifth of each start
        super().__init__(app_name, app_module)

    def ready(self) -> None:
        from controlplane import checks  # noqa: F401  (registers them)

        names.warn()

        gc.freeze()
        gc.enable()

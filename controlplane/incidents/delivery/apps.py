from django.apps import AppConfig


class DeliveryConfig(AppConfig):
    name = "controlplane.incidents.delivery"
    label = "delivery"
    verbose_name = "Paging"

    def ready(self) -> None:
        from controlplane.incidents.delivery import metrics, sealed  # noqa: F401  (registers a check)

        metrics.register()

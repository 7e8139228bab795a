from django.apps import AppConfig


class DeliveryConfig(AppConfig):
    name = "controlplane.incidents.notify.delivery"
    label = "delivery"
    verbose_name = "Paging"

    def ready(self) -> None:
        from controlplane.incidents.notify.delivery import secret_checks  # noqa: F401  (registers a check)
        from controlplane.incidents.notify.delivery.health import metrics

        metrics.register()

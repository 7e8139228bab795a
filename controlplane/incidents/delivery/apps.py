from django.apps import AppConfig


class DeliveryConfig(AppConfig):
    name = "controlplane.incidents.delivery"
    label = "delivery"
    verbose_name = "Paging"

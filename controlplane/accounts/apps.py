from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "controlplane.accounts"
    verbose_name = "Accounts"

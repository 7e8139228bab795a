from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "controlplane.accounts"
    verbose_name = "Accounts"

    def ready(self) -> None:
        from allauth.account.signals import user_logged_in

        from controlplane.accounts.login.break_glass import watch
        from controlplane.accounts.login.provider import remember

        user_logged_in.connect(remember, dispatch_uid="what a provider said")
        user_logged_in.connect(watch, dispatch_uid="who broke the glass")

from allauth.account.forms import ResetPasswordForm
from django.contrib.auth.models import User


class ResetPassword(ResetPasswordForm):  # type: ignore[misc]
    """Of people who have a password: whoever logs in through a provider gets none here."""

    def clean_email(self) -> str:
        email: str = super().clean_email()
        self.users: list[User] = [user for user in self.users if user.has_usable_password()]
        return email

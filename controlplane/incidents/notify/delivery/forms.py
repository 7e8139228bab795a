"""The admin's forms of destinations and of webhook secrets. They take secrets, and never show one."""

from typing import Any

from django import forms

from controlplane.core.encryption import SealError
from controlplane.core.formatting import capitalised
from controlplane.incidents.notify.delivery import reachable
from controlplane.incidents.notify.delivery.destinations import KINDS
from controlplane.incidents.notify.delivery.destinations.kind import RequestAddress
from controlplane.incidents.notify.delivery.destinations.webhook import WEBHOOK
from controlplane.incidents.notify.delivery.models import SEVERITIES, Destination, HookSecret

SECRET_HELP = " ".join(
    [
        *(f"{kind.label}: {kind.credential_help}." for kind in KINDS.values()),
        "When a destination is changed, empty keeps the secret it has.",
    ]
)
URL_HELP = " ".join(f"{kind.label}: {kind.url_help}." for kind in KINDS.values())


class DestinationForm(forms.ModelForm):  # type: ignore[type-arg]
    url = forms.URLField(label="URL", required=False, max_length=500, assume_scheme="https", help_text=URL_HELP)
    secret = forms.CharField(
        required=False,
        max_length=500,
        strip=True,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text=SECRET_HELP,
    )
    severities = forms.MultipleChoiceField(
        choices=[(severity, severity) for severity in SEVERITIES],
        initial=list(SEVERITIES),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None: takes no pages of its own, and serves as a fallback.",
    )

    class Meta:
        model = Destination
        exclude = ["endpoint"]  # noqa: DJ006  (made of the address and the secret)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.new_secret = ""
        self.warning = ""  # of what is saved all the same
        self._had = self.instance.endpoint if self.instance.pk else None
        if self._had is not None:
            self.initial["url"] = self._had.url

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        kind, url = KINDS.get(values.get("kind", "")), values.get("url", "")
        secret = values.get("secret", "") or self._kept(kind.name if kind else "")
        if "secret" in self.errors:
            return values
        if kind is not None:
            if kind.new_secret is not None and not secret:
                secret = self.new_secret = kind.new_secret()
            problem = kind.problem(url, secret)
            if problem is not None:
                self.add_error(*problem)
            elif "url" not in self.errors:
                self._check_address(kind.address(url, secret), bool(values.get("enabled")))
        fallback = values.get("fallback")
        if fallback is not None and fallback.pk == self.instance.pk:
            self.add_error("fallback", "A destination cannot stand in for itself: choose another.")
        if values.get("takes_audit") and (values.get("kind") != WEBHOOK.name or values.get("team")):
            self.add_error("takes_audit", "The audit goes to a signed webhook without a team.")
        values["secret"] = secret
        return values

    def _check_address(self, address: RequestAddress, enabled: bool) -> None:
        """A disabled destination is saved in any case, so that one whose address is refused can be disabled."""
        checked = reachable.check(address)
        if checked.refused and enabled:
            self.add_error(address.field, checked.refused)
        self.warning = checked.warning or checked.refused

    def _kept(self, kind: str) -> str:
        try:
            return self._had.secret if self._had is not None and self._had.kind == kind else ""
        except SealError as error:
            self.add_error("secret", f"{capitalised(str(error))}.")
            return ""

    def _post_clean(self) -> None:
        """The endpoint is a row, so it is made only where the form has no error."""
        if not self.errors:
            self.instance.kind = self.cleaned_data["kind"]
            try:
                self.instance.point_at(self.cleaned_data["url"], self.cleaned_data["secret"])
            except SealError as error:
                self.add_error("secret", f"{capitalised(str(error))}.")
        super()._post_clean()  # type: ignore[misc]


class HookSecretForm(forms.ModelForm):  # type: ignore[type-arg]
    """The secret is entered when the row is made, and never again."""

    secret = forms.CharField(
        max_length=200,
        strip=True,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text="Shown by PagerDuty once, when the subscription is made.",
    )

    class Meta:
        model = HookSecret
        fields = ["name", "secret", "enabled"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            del self.fields["secret"]

    def _post_clean(self) -> None:
        if not self.errors and "secret" in self.cleaned_data:
            try:
                self.instance.secret = self.cleaned_data["secret"]
            except SealError as error:
                self.add_error("secret", f"{capitalised(str(error))}.")
        super()._post_clean()  # type: ignore[misc]

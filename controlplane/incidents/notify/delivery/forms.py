"""The admin's form of a destination: secrets go in, and never come out again."""

from typing import Any

from django import forms

from controlplane.incidents.notify.delivery import reachable
from controlplane.incidents.notify.delivery.core.encryption import SealError
from controlplane.incidents.notify.delivery.destinations.pagerduty.payload import ROUTING_KEY_CHARACTERS
from controlplane.incidents.notify.delivery.destinations.webhook.payload import key as webhook_key
from controlplane.incidents.notify.delivery.destinations.webhook.payload import new_secret
from controlplane.incidents.notify.delivery.models import SEVERITIES, Destination, HookSecret, Kind

KEY_HELP = (
    "PagerDuty: the integration's routing key. Slack: the webhook's whole URL. Signed webhook: empty makes a secret, which is shown "
    "once. When a destination is changed, empty keeps the one it has."
)
URL_HELP = (
    "PagerDuty: empty, or https://events.eu.pagerduty.com in the EU. Slack: empty. Signed webhook: where to send."
)


class DestinationForm(forms.ModelForm):  # type: ignore[type-arg]
    url = forms.URLField(label="URL", required=False, max_length=500, assume_scheme="https", help_text=URL_HELP)
    secret = forms.CharField(
        required=False,
        max_length=500,
        strip=True,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text=KEY_HELP,
    )
    severities = forms.MultipleChoiceField(
        choices=[(one, one) for one in SEVERITIES],
        initial=list(SEVERITIES),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None: takes no pages of its own, and serves as a fallback.",
    )

    class Meta:
        model = Destination
        fields = [
            "name",
            "kind",
            "url",
            "secret",
            "team",
            "severities",
            "takes_changes",
            "fallback",
            "fallback_after_s",
            "enabled",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.new_secret = ""
        self.warning = ""  # of what is saved all the same
        self._had = self.instance.endpoint if self.instance.pk else None
        if self._had is not None:
            self.initial["url"] = self._had.url

    def clean(self) -> dict[str, Any]:
        found = super().clean() or self.cleaned_data
        kind, url = found.get("kind", ""), found.get("url", "")
        secret = found.get("secret", "") or self._kept(kind)
        if "secret" in self.errors:
            return found
        if kind == Kind.WEBHOOK and not secret:
            secret = self.new_secret = new_secret()
        problem = _problem(kind, url, secret)
        if problem:
            self.add_error(*problem)
        elif kind and "url" not in self.errors:
            self._check_address(kind, url, secret, bool(found.get("enabled")))
        if found.get("fallback") is not None and found["fallback"].pk == self.instance.pk:
            self.add_error("fallback", "A destination cannot stand in for itself: choose another.")
        found["secret"] = secret
        return found

    def _check_address(self, kind: str, url: str, secret: str, enabled: bool) -> None:
        """A destination that is disabled may be saved as it is, so that one whose address is refused can be disabled."""
        address = reachable.spoken_to(kind, url, secret)
        found = reachable.check(address)
        if found.refused and enabled:
            self.add_error(address.field, found.refused)
        self.warning = found.warning or found.refused

    def _kept(self, kind: str) -> str:
        try:
            return self._had.secret if self._had is not None and self._had.kind == kind else ""
        except SealError as error:
            self.add_error("secret", _sentence(error))
            return ""

    def _post_clean(self) -> None:
        """The endpoint is made only where the form is right: it is a row."""
        if not self.errors:
            self.instance.kind = self.cleaned_data["kind"]
            try:
                self.instance.point_at(self.cleaned_data["url"], self.cleaned_data["secret"])
            except SealError as error:
                self.add_error("secret", _sentence(error))
        super()._post_clean()  # type: ignore[misc]


class HookSecretForm(forms.ModelForm):  # type: ignore[type-arg]
    """`secret` is asked for once, when the row is made."""

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
                self.add_error("secret", _sentence(error))
        super()._post_clean()  # type: ignore[misc]


def _sentence(error: Exception) -> str:
    return f"{str(error)[:1].upper()}{str(error)[1:]}."


def _problem(kind: str, url: str, secret: str) -> tuple[str, str] | None:
    if kind == Kind.PAGERDUTY and not (len(secret) == ROUTING_KEY_CHARACTERS and secret.isalnum()):
        return (
            "secret",
            f"A routing key has {ROUTING_KEY_CHARACTERS} letters and digits: copy it from the integration's page.",
        )
    if kind == Kind.SLACK and not secret.startswith(("https://", "http://")):
        return "secret", "Give the webhook's whole URL, such as https://hooks.slack.com/services/…."
    if kind == Kind.SLACK and url:
        return "url", "Leave it empty: Slack's URL is a secret, and goes into the field below."
    if kind == Kind.WEBHOOK:
        if not url:
            return "url", "Say where to send, such as https://example.com/weir."
        try:
            webhook_key(secret)
        except ValueError as error:
            return "secret", _sentence(error)
    return None

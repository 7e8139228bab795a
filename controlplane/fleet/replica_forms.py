"""Forms of replicas: each shows and keeps the addresses that its pool's protocol has."""

from typing import Any

from django.forms import BaseInlineFormSet, ModelForm

ADDRESSES = {"openai": ["url"], "triton": ["grpc", "http"]}
"""A replica's addresses by its pool's protocol."""


def replica_fields(protocol: str | None) -> list[str]:
    """What a form of a replica shows; all addresses where the protocol is not chosen yet."""
    every = [field for fields in ADDRESSES.values() for field in fields]
    return ["name", *ADDRESSES.get(protocol or "", every), "metrics", "enabled", "managed_by"]


class ReplicaForm(ModelForm):
    """An address that the form does not show is of another protocol, and goes."""

    def _post_clean(self) -> None:
        for address in (field for fields in ADDRESSES.values() for field in fields):
            if address not in self.fields:
                setattr(self.instance, address, "")
        super()._post_clean()  # type: ignore[misc]


class ReplicaFormSet(BaseInlineFormSet):
    """A replica is checked against its pool as the form has it, also before the pool is saved."""

    def _construct_form(self, i: int, **kwargs: Any) -> Any:
        form = super()._construct_form(i, **kwargs)  # type: ignore[misc]
        form.instance.pool = self.instance
        return form

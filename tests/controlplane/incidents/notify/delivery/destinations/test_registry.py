"""Every kind of destination is one module, which the registry lists."""

from pathlib import Path

import pytest
from django.forms import ChoiceField

from controlplane.incidents.notify.delivery.destinations import KINDS, choices
from controlplane.incidents.notify.delivery.destinations.kind import DestinationKind, Message
from controlplane.incidents.notify.delivery.forms import DestinationForm
from controlplane.incidents.notify.delivery.models import Destination, Endpoint
from deploy.local.process import ROOT
from tests.support.incidents.notices import notice


def test_each_module_with_a_kind_is_registered_and_has_tests() -> None:
    folder = ROOT / "controlplane/incidents/notify/delivery/destinations"
    assert {path.stem for path in folder.glob("*.py") if "= DestinationKind(" in path.read_text()} == set(KINDS)
    assert {path.stem for path in Path(__file__).parent.glob("test_*.py")} >= {f"test_{name}" for name in KINDS}


def test_model_form_and_rest_api_read_the_registry() -> None:
    from controlplane.api.endpoints.deliveries import DestinationOut

    for model in (Destination, Endpoint):
        assert list(model._meta.get_field("kind").flatchoices) == choices()
    field = DestinationForm().fields["kind"]
    assert isinstance(field, ChoiceField)
    assert [choice for choice in field.choices if choice[0]] == choices()
    assert DestinationOut.json_schema()["properties"]["kind"]["enum"] == list(KINDS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_form_and_the_docs_explain_each_kind(kind: DestinationKind) -> None:
    form = DestinationForm()
    assert f"{kind.label}: {kind.url_help}." in form.fields["url"].help_text
    assert f"{kind.label}: {kind.credential_help}." in form.fields["secret"].help_text
    assert f"| {kind.label} |" in (ROOT / "docs/paging.md").read_text()


def test_a_secret_is_in_no_text_of_a_message_or_request() -> None:
    message = Message(notice("trigger", 1), "https://x", "hunter2")
    assert "hunter2" not in repr(message)
    assert "hunter2" not in repr(KINDS["pagerduty"].render(message))
    assert "hunter2" not in repr(KINDS["slack"].render(message))

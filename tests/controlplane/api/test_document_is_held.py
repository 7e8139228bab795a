"""The API against its own OpenAPI document, for every role: what the document allows is taken, what it does not allow is refused, and
every answer is one that the document describes."""

import os
from collections.abc import Iterator

import pytest
import schemathesis
from django.contrib.auth.models import Permission, User
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig

from controlplane.accounts.models import ApiToken
from controlplane.api.app import api
from tests.support.web.served import Filled

schema = schemathesis.openapi.from_dict(api.get_openapi_schema(), config=SchemathesisConfig())
schema.app = get_wsgi_application()

EXAMPLES = int(os.environ.get("WEIR_EXAMPLES", "5"))
"""Of each operation and role. The coverage phase adds the edges of every value to them."""


def _administrator() -> User:
    return User.objects.create_superuser("ada")


def _owner() -> User:
    """May do everything with objectives, and nothing else."""
    user = User.objects.create_user("olga")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="slo"))
    return user


def _reader() -> User:
    return User.objects.create_user("rita")


ROLES = {"administrator": _administrator, "owner": _owner, "reader": _reader}


@pytest.fixture(autouse=True)
def _connection_stays() -> Iterator[None]:
    """The application would close the connection whose transaction is this test's. Django's own test client does the same."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture(params=ROLES)
def token(request: pytest.FixtureRequest, db: None) -> str:
    return ApiToken.objects.issue(ROLES[request.param](), "tests")[1]


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_does_what_the_document_says(case: schemathesis.Case, token: str, served: Filled) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {token}"})

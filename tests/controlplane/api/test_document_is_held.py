"""The API against its own OpenAPI document, for every role: what the document allows is taken, what it does not allow is refused, and
every answer is one that the document describes."""

import os
from collections.abc import Iterator

import pytest
import schemathesis
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import override_settings
from hypothesis import HealthCheck
from hypothesis import settings as examples
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import ignored_auth

from controlplane.accounts.models import ApiToken
from controlplane.api.app import api
from tests.support.web.served import Filled

STATIC_FILES = "servestatic.middleware.ServeStaticMiddleware"
"""The only middleware that has to run in an event loop, and of no use to the API: each request would begin one for it."""

schema = schemathesis.openapi.from_dict(api.get_openapi_schema(), config=SchemathesisConfig())
with override_settings(MIDDLEWARE=[name for name in settings.MIDDLEWARE if name != STATIC_FILES]):
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


@pytest.fixture
def token(role: str, db: None) -> str:
    return ApiToken.objects.issue(ROLES[role](), "tests")[1]


CHOSEN = examples(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("role", ROLES)
@schema.exclude(method="GET").parametrize()
@CHOSEN
def test_every_operation_does_what_the_document_says(
    case: schemathesis.Case, role: str, token: str, served: Filled
) -> None:
    held(case, role, token)


@pytest.mark.parametrize("role", ["administrator", "reader"])  # an owner reads what a reader does
@schema.include(method="GET").parametrize()
@CHOSEN
def test_every_question_is_answered_as_the_document_says(
    case: schemathesis.Case, role: str, token: str, served: Filled
) -> None:
    held(case, role, token)


def held(case: schemathesis.Case, role: str, token: str) -> None:
    # What is allowed is tried again without the token, and with a wrong one. Such calls have no role, so one role's are all.
    excluded = [] if role == "administrator" else [ignored_auth]
    case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, excluded_checks=excluded)

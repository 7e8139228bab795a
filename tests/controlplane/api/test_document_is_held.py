"""The API against its own OpenAPI document: what the document allows is taken, what it does not allow is refused, and
every answer is one that the document describes."""

import itertools
from collections.abc import Iterator

import pytest
import schemathesis
from _pytest.mark import ParameterSet
from django.conf import settings
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import override_settings
from hypothesis import HealthCheck
from hypothesis import settings as examples
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi.checks import ignored_auth
from schemathesis.specs.openapi.schemas import OpenApiSchema

from controlplane.accounts.models import ApiToken, TenantMembership
from controlplane.fleet.models import Tenant, Tier
from tests.support.soak import SOAKING, sized
from tests.support.web.document import api_document
from tests.support.web.people import member
from tests.support.web.served import Filled

# All of them want the store. Said here, so that `make test-fast` does not import schemathesis.
pytestmark = pytest.mark.processes

STATIC_FILES = "servestatic.middleware.ServeStaticMiddleware"
"""The only middleware that has to run in an event loop, and of no use to the API: each request would begin one for it."""

EXAMPLES = sized(3, soak=50)
"""Of each operation and role. The coverage phase adds the edges of every value to them."""


DOCUMENT = api_document()
OPERATIONS = [(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item]


@pytest.fixture(scope="module")
def schema(request: pytest.FixtureRequest) -> OpenApiSchema:
    """With the edges of every value, or without them. Not made while tests are collected: that takes longer than all other files."""
    config = SchemathesisConfig.from_dict({"phases": {"coverage": {"enabled": request.param == "edges"}}})
    schema = schemathesis.openapi.from_dict(DOCUMENT, config=config)
    with override_settings(MIDDLEWARE=[name for name in settings.MIDDLEWARE if name != STATIC_FILES]):
        schema.app = get_wsgi_application()
    return schema


def _administrator() -> User:
    return User.objects.create_superuser("ada")


def _owner() -> User:
    return member("olga", "owner")


def _reader() -> User:
    return member("rita", "viewer")


def _of_a_tenant() -> User:
    user = User.objects.create_user("tess")
    tier = Tier.objects.create(name="standard")
    TenantMembership.objects.create(user=user, tenant=Tenant.objects.create(name="search", tier=tier))
    return user


ROLES = {
    "administrator": _administrator,
    "owner": _owner,
    "reader": _reader,
    "responder": lambda: member("rosa", "responder"),
    "approver": lambda: member("abe", "approver"),
    "tenant": _of_a_tenant,
    "nobody": lambda: User.objects.create_user("ned"),
}


SAME_BODY = {
    ("POST", "/api/v1/objectives/preview"), ("PUT", "/api/v1/objectives/{slug}"), ("PUT", "/api/v1/maintenance/{number}"),
    ("POST", "/api/v1/openslo/lint"),
}  # fmt: skip
"""They take what POST of the same things takes, by the same schema: its edges are tried there, but in `make test-soak` with these too."""


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
    """Used just now: else each call would record that it was, because what the one before recorded is taken back."""
    token, text = ApiToken.objects.issue(ROLES[role](), "tests", ["admin"])
    token.record_use()
    return text


CHOSEN = examples(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def asked() -> Iterator[ParameterSet]:
    """Each operation as an administrator asks it, with edges for changes: test_any_input.py asks anything of what only reads.

    In `make test-soak` each role asks each, with edges: accounts/matrix/test_operations.py holds every role to what it may, and its
    answers to the document.
    """
    for (method, path), role in itertools.product(OPERATIONS, ROLES):
        is_others = (method, role) == ("GET", "owner")  # who reads what a reader does
        if role == "administrator" or (SOAKING and not is_others):
            edges = role == "administrator" and method != "GET" and (method, path) not in SAME_BODY
            phases = "edges" if SOAKING or edges else "plain"
            yield pytest.param(method, path, role, phases, id=f"{method} {path}-{role}")


@pytest.mark.parametrize(("method", "path", "role", "schema"), list(asked()), indirect=["schema"])
def test_every_operation_does_what_the_document_says(
    method: str, path: str, role: str, schema: OpenApiSchema, token: str, served: Filled
) -> None:
    # The first that is allowed is tried again without the token, and with a wrong one. Such calls have no role, so one role's are all.
    excluded = [] if role == "administrator" else [ignored_auth]

    def held(case: schemathesis.Case) -> None:
        with transaction.atomic():
            answer = case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, excluded_checks=excluded)
            transaction.set_rollback(True)  # it may have withdrawn the token
        if answer.status_code < 300:
            excluded[:] = [ignored_auth]

    build_operation_test(
        config=schema.config, operation=schema[path][method], test_func=held, given_kwargs={},
        feedback=FeedbackSources(), explicit_settings=CHOSEN,
    )()  # fmt: skip

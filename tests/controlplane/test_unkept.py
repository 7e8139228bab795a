"""A text that the database cannot keep is the client's mistake: screens answered 500."""

import json
from typing import Any

import pytest
from django.db import DataError, connection
from django.http import HttpResponse
from django.test import Client, RequestFactory

from controlplane.web.unkept import Unkept

pytestmark = pytest.mark.django_db(transaction=True)
AUDIT = "controlplane.dashboard.views.administrators.audit.newest_first"
NUL = "PostgreSQL text fields cannot contain NUL (0x00) bytes"


class DriverError(Exception):
    """As the driver says it."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def refusing(sqlstate: str | None) -> Any:
    def refuse(*_: object) -> None:
        raise DataError(NUL) from DriverError(sqlstate)

    return refuse


def test_a_request_with_nul_is_wrong(owner: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "postgresql":  # SQLite keeps it
        monkeypatch.setattr(AUDIT, refusing(None))
    answer = owner.get("/audit?kind=%00")
    assert (answer.status_code, b"U+0000" in answer.content) == (400, True)


@pytest.mark.parametrize(
    ("sqlstate", "query", "is_its"),
    [
        (None, "kind=x", False),
        ("22021", "kind=x", False),
        ("22P05", "kind=%5Cu0000", True),
        ("22003", "limit=99999", True),
        ("22003", "kind=x", False),
        ("22012", "kind=%00&limit=99999", False),
    ],
)
def test_what_the_request_does_not_have_is_a_defect_and_not_its_mistake(
    owner: Client, monkeypatch: pytest.MonkeyPatch, sqlstate: str | None, query: str, is_its: bool
) -> None:
    """A division by zero of a page was said to be a text or number of the request."""
    monkeypatch.setattr(AUDIT, refusing(sqlstate))
    if is_its:
        assert owner.get(f"/audit?{query}").status_code == 400
    else:
        with pytest.raises(DataError):
            owner.get(f"/audit?{query}")


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"data": json.dumps({"name": "a\0b"}), "content_type": "application/json"}, 400),
        ({"data": json.dumps({"name": "ab"}), "content_type": "application/json"}, None),
        ({"data": {"name": "a\0b"}}, 400),
        ({"data": {"name": "ab"}}, None),
        ({"data": "name=a%00b", "content_type": "application/x-www-form-urlencoded"}, 400),
    ],
)
def test_bodies_are_looked_at_also_where_a_form_was_read_as_it_came(
    content: dict[str, Any], status: int | None
) -> None:
    request = RequestFactory().post("/api/v1/silences", **content)
    request.POST.keys()
    answer = Unkept(lambda _: HttpResponse()).process_exception(request, DataError(NUL))
    assert (answer and answer.status_code) == status
    assert answer is None or json.loads(answer.content)["title"] == "Bad request"

"""A text that the database cannot keep is the client's mistake: screens answered 500."""

import pytest
from django.db import DataError, connection
from django.test import Client

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_request_with_nul_is_wrong(owner: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")

    if connection.vendor != "postgresql":  # SQLite keeps it
        monkeypatch.setattr("controlplane.dashboard.views.administrators.audit.newest_first", refuse)
    answer = owner.get("/audit?kind=%00")
    assert (answer.status_code, b"U+0000" in answer.content) == (400, True)
    monkeypatch.setattr("controlplane.api.endpoints.audit.newest_first", refuse)
    answer = owner.get("/api/v1/audit")
    assert (answer.status_code, answer.json()["title"]) == (400, "Bad request")

"""A text that the database cannot keep is the client's mistake: screens answered 500."""

from typing import Any

import pytest
from django.db import DataError, connection
from django.test import Client

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
    ("sqlstate", "is_its"),
    [(None, True), ("22001", True), ("22003", True), ("22008", True), ("22021", True), ("22012", False)],
)
def test_whatever_else_the_database_refuses_is_a_defect(
    owner: Client, monkeypatch: pytest.MonkeyPatch, sqlstate: str | None, is_its: bool
) -> None:
    """A division by zero of a page was said to be a text or number of the request."""
    monkeypatch.setattr(AUDIT, refusing(sqlstate))
    if is_its:
        assert owner.get("/audit?kind=x").status_code == 400
    else:
        with pytest.raises(DataError):
            owner.get("/audit?kind=x")

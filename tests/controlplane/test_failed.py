"""What is answered where the database cannot be used, or Weir has a defect. Django's own page says nothing, and is no problem document."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from controlplane.core.problems import PROBLEM

pytestmark = pytest.mark.django_db


def failing(error: Exception, *, begins: str = "") -> AbstractContextManager[None]:
    """Statements that begin so fail."""

    def execute(run: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        if sql.startswith(begins):
            raise error
        return run(sql, *arguments)

    return connection.execute_wrapper(execute)


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["page", "fragment"])
def test_a_page_says_that_the_database_cannot_be_used(reader: Client, headers: dict[str, str]) -> None:
    reader.raise_request_exception = False
    with failing(OperationalError("database or disk is full")):
        answer = reader.get("/incidents", headers=headers)
    text = answer.content.decode()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "The database cannot be used" in text and "disk is full: the log" in text
    assert ("<html" in text) is not bool(headers)


def test_a_program_gets_a_problem_document(caller: Client) -> None:
    caller.raise_request_exception = False
    with failing(OperationalError("database is locked")):
        answer = caller.get("/api/v1/incidents")
    assert (answer.status_code, answer["Content-Type"], answer["Retry-After"]) == (503, PROBLEM, "5")
    with failing(ZeroDivisionError("of Weir")):
        answer = caller.get("/api/v1/incidents")
    assert (answer.status_code, answer["Content-Type"]) == (500, PROBLEM)
    assert "of Weir; the log" in answer.json()["detail"] and "Retry-After" not in answer


def test_a_defect_is_said_to_be_one(reader: Client) -> None:
    reader.raise_request_exception = False
    with failing(ZeroDivisionError()):
        answer = reader.get("/incidents")
    assert answer.status_code == 500 and "This is a defect of Weir" in answer.content.decode()


@pytest.mark.django_db(transaction=True)  # as in earnest: what fails ends no transaction of others
def test_a_database_that_takes_nothing_can_be_read_with_a_token(caller: Client) -> None:
    with failing(OperationalError("database or disk is full"), begins="UPDATE"):
        assert caller.get("/api/v1/incidents").status_code == 200

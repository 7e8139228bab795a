"""Lets one writer at a time add notices of a key: take this lock before reading what was sent of it."""

from django.db import connection


def hold(key: str) -> None:
    """Until the transaction ends, which must be open. On SQLite a transaction is the only writer from its beginning on."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"delivery/{key}"])

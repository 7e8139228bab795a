"""SQLite has one writer at a time, and whoever waits for it sleeps, up to 100 ms at a time: threads of one process take turns before."""

import threading
from contextlib import AbstractContextManager, nullcontext

from django.db import connection

_turns = threading.Lock()


def turn() -> AbstractContextManager[object]:
    """Around transactions that write, none of which is in another."""
    return _turns if connection.vendor == "sqlite" else nullcontext()

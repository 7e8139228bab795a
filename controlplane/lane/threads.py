"""Work of event loops that waits for the database or the disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import DatabaseError, connection

T = TypeVar("T")
_threads = ThreadPoolExecutor(16, thread_name_prefix="lane-routes")
"""Each keeps its connection to the database: to make one costs more than most requests."""


async def in_thread(call: Callable[[], T]) -> T:
    def work() -> T:
        if connection.connection is not None and not connection.is_usable():
            connection.close()  # the database has restarted
        try:
            return call()
        except DatabaseError:
            connection.close()
            raise

    return await asyncio.get_running_loop().run_in_executor(_threads, work)

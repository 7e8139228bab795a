"""Runs work for one objective among many, so that its failure stops no other."""

from collections.abc import Callable
from typing import TypeVar

from controlplane.telemetry.store import StoreLimitError, StoreUnavailableError

T = TypeVar("T")


def isolated(work: Callable[[], T]) -> T | Exception:
    """The result of `work`, or the exception it raised.

    Raises StoreUnavailableError, which concerns every objective, unless it is a StoreLimitError, which concerns this query.
    """
    try:
        return work()
    except StoreLimitError as error:
        return error
    except StoreUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001  (the one place where any failure of one objective is caught)
        return error


def reason(error: Exception) -> str:
    """The text of an error for people, with its type unless it names a field."""
    said = str(error)
    if said and (isinstance(error, ValueError) or type(error).__name__.startswith("Store")):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__

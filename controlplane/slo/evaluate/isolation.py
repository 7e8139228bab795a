"""What is done for one objective among many: however it fails, the failure is that objective's alone."""

from collections.abc import Callable
from typing import TypeVar

from controlplane.telemetry.store import StoreUnavailableError

T = TypeVar("T")


def isolated(work: Callable[[], T]) -> T | Exception:
    """What `work` returns, or why it failed. Raises StoreUnavailableError alone, because then it is no one's failure."""
    try:
        return work()
    except StoreUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001  (the one place where any failure of one objective is held)
        return error


def reason(error: Exception) -> str:
    """An error in words for people: what names a field is plain already, all else says its type."""
    said = str(error)
    if said and (isinstance(error, ValueError) or type(error).__name__.startswith("Store")):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__

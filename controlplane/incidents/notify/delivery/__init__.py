"""Telling the outside, once each and in order, whatever fails on the way.

`enqueue` writes what is to be told into the outbox (`outbox.py`), inside the caller's transaction; the sender (`sender.py`, in the
worker) tells it. What decides is pure: `route.py` (to whom), `retry.py` (what an answer means, and when again), `address.py` (which
addresses may be spoken to) and one renderer per kind of destination (`kinds/`). `http.py` alone speaks to the network.
"""

from controlplane.incidents.notify.core.notice import Change, Notice


def enqueue(notice: Notice | Change) -> bool:
    """Write it into the outbox, for each destination that takes it. Call inside the transaction that makes it true.

    False where no destination takes it: then nobody is told.
    Raises ValueError for a key or summary that is empty or too long, IntegrityError for a sequence that its key already had.
    """
    from controlplane.incidents.notify.delivery.outbox import put

    return put(notice)

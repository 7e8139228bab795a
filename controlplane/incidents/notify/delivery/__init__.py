"""Delivers notices to destinations: in order, at least once, whatever fails on the way.

`enqueue` writes a notice into the outbox (`outbox.py`), inside the caller's transaction. The sender (`send/sender.py`, a thread of
the worker) sends it. `core/` decides: `route.py` where a notice goes, `retry.py` what an answer means and when to try again,
`outbound_address.py` where requests may go. `destinations/` has a module for each kind of destination. `send/http_client.py` alone
speaks to the network.
"""

from controlplane.incidents.notify.core.notice import Change, Notice


def enqueue(notice: Notice | Change) -> bool:
    """Write it into the outbox, for each destination that takes it. Call inside the transaction of what it says.

    False where no destination takes it: then nobody is notified.
    Raises ValueError for a key or summary that is empty or too long, IntegrityError for a sequence that its key already had.
    """
    from controlplane.incidents.notify.delivery.outbox import put

    return put(notice)

"""Settings of senders in tests."""

from collections.abc import Callable

from controlplane.incidents.notify.delivery.core.retry import Policy
from controlplane.incidents.notify.delivery.send.sender import Sender

QUICK = Policy(first_s=0.02, longest_s=0.3, longest_pause_s=0.2, timeout_s=0.5, lease_s=1.5)
"""The sender's own settings, with shorter times."""

StartSender = Callable[..., Sender]

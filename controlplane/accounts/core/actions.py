"""What is asked of the rule: every action there is."""

from controlplane.accounts.core.rule import ROLES, Action, Role

_ANY: frozenset[Role] = frozenset(ROLES)
_OWNER: frozenset[Role] = frozenset({"owner"})
_RESPONDER: frozenset[Role] = frozenset({"owner", "responder"})
_APPROVER: frozenset[Role] = frozenset({"approver"})

VIEW = Action("read", _ANY, frozenset({"read"}), shared=True)
RESPOND = Action("act on incidents", _RESPONDER, frozenset({"respond"}), shared=True)
SILENCE = Action("silence incidents", _RESPONDER, frozenset({"respond"}), shared=True)
RECORD_CHANGE = Action("record changes", _RESPONDER, frozenset({"respond", "fleet"}), shared=True)

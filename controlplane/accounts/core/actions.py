"""What is asked of the rule: every action there is."""

from controlplane.accounts.core.rule import ROLES, Action, Role

_ANY: frozenset[Role] = frozenset(ROLES)
_OWNER: frozenset[Role] = frozenset({"owner"})
_RESPONDER: frozenset[Role] = frozenset({"owner", "responder"})
_APPROVER: frozenset[Role] = frozenset({"approver"})

VIEW = Action("read", _ANY, frozenset({"read"}), shared=True)
SEE_TENANT = Action("see a tenant's figures", _ANY, frozenset({"read"}), shared=True, by_tenant=True)
RESPOND = Action("act on incidents", _RESPONDER, frozenset({"respond"}), shared=True)
SILENCE = Action("silence incidents", _RESPONDER, frozenset({"respond"}), shared=True)
RECORD_CHANGE = Action("record changes", _RESPONDER, frozenset({"respond", "fleet"}), shared=True)
EDIT_OBJECTIVES = Action("edit objectives", _OWNER, frozenset({"objectives"}))
CHANGE_POLICIES = Action("change policies", _OWNER, frozenset({"policies"}))
APPROVE_POLICIES = Action("approve policies", _APPROVER, frozenset({"policies"}), by_another=True)
REJECT_POLICIES = Action("reject or withdraw changes of policies", _OWNER | _APPROVER, frozenset({"policies"}))
EDIT_FLEET = Action("edit the fleet", _OWNER, frozenset({"fleet"}))
REVIEW_FLEET = Action("preview, reject or withdraw changes of the fleet", _OWNER | _APPROVER, frozenset({"fleet"}))
APPROVE_FLEET = Action("approve changes of the fleet", _APPROVER, frozenset({"fleet"}), by_another=True)
EDIT_DESTINATIONS = Action("edit destinations", _OWNER)
RUN_BATCHES = Action("cancel batches or run failed lines again", _OWNER, frozenset({"fleet"}))
RUN_JOBS = Action("start or cancel jobs of the plan", _OWNER, frozenset({"plan"}), shared=True)
EDIT_PLAN = Action("edit what plans assume", _OWNER, frozenset({"plan"}))
SEND_SCORES = Action("send scores of answers", _OWNER, frozenset({"policies", "scores"}), shared=True)
SAVE_VIEWS = Action("save views", _ANY)
SEE_AUDIT = Action("see the audit")
ADMINISTER = Action("administer Weir")

"""The rail that notices a second owner of a count: a HorizontalPodAutoscaler, or a hand."""

from controlplane.policy.core.rails.case import Case, Verdict, alarm, cooperates, hpa_of
from controlplane.policy.core.words import replicas


def other_owner(case: Case, count: int) -> Verdict | None:
    name = hpa_of(case.facts)
    return _hpa(case, count, name) if name else _hand(case, count)


def _hpa(case: Case, count: int, name: str) -> Verdict | None:
    pool = case.facts.pool
    if cooperates(case.spec, case.facts):
        if case.facts.hpa_kept_by:
            text = f"{case.facts.hpa_kept_by} The floor of {pool} stays as it is."
            return Verdict(case.seen, text, alarm=alarm("owner", pool, text, "page"), hold="owner")
        most = case.facts.hpa_max
        if most is not None and count > most:
            text = f"{pool} wants {replicas(count)}, and the HPA {name} allows at most {most}: raise its maxReplicas."
            return Verdict(most, text, alarm=alarm("owner", pool, text, "ticket"))
        least = case.facts.hpa_floor
        if least is not None and count < least:
            return Verdict(least, f"the owner of the HPA {name} keeps at least {replicas(least)}")
        return None
    remedy = "delete it" if case.spec.other_owner == "adopt" else "delete it, or set other_owner to cooperate"
    text = f"The HPA {name} sets the count of {pool} too: {remedy}. Until then nothing is done."
    return Verdict(case.seen, text, alarm=alarm("owner", pool, text, "page"), hold="owner")


def _hand(case: Case, count: int) -> Verdict | None:
    facts, spec = case.facts, case.spec
    if facts.owner_of_count == "weir" or not case.memory.owned or spec.other_owner == "adopt":
        return None
    who = "by hand" if facts.owner_of_count == "hand" else f"by {facts.owner_of_count}"
    if spec.other_owner == "cooperate":
        text = f"{replicas(case.seen)} were set {who}, and are not gone below"
        return Verdict(case.seen, text) if count < case.seen else None
    text = (
        f"The count of {facts.pool} was set to {case.seen} {who}. Nothing is done until it is Weir's again: "
        "set other_owner to adopt or cooperate."
    )
    return Verdict(case.seen, text, alarm=alarm("owner", facts.pool, text, "page"), hold="owner")

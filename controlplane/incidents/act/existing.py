"""What a silence may name: what objectives, the fleet and incidents have. A typing error is refused, for it would silence nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from django.core.exceptions import ValidationError

from controlplane.fleet.models import NAMED_BY, Observation, Team
from controlplane.incidents.core.silences import matcher
from controlplane.incidents.models import Incident
from controlplane.slo.models import ObjectiveState, StoredObjective

CHECKED = ("objective", "component", "owner", "severity", "model", "variant", "pool", "region", "tier", "tenant")
"""Their values are known. Of lengths of prompts and labels any text is taken."""


def existing() -> dict[str, list[str]]:
    """The values of each of CHECKED, in order."""
    incidents = list(Incident.objects.values_list("objective", "component", "owner", "scope"))
    scopes = [*(row[3] for row in incidents), *StoredObjective.objects.values_list("scope", flat=True)]
    scopes += ObjectiveState.objects.values_list("scope", flat=True)
    values: dict[str, set[str]] = {
        "objective": {*StoredObjective.objects.values_list("slug", flat=True), *(row[0] for row in incidents)},
        "component": {*Observation.objects.values_list("component", flat=True), *(row[1] for row in incidents)},
        "owner": {
            *Team.objects.values_list("name", flat=True),
            *StoredObjective.objects.exclude(owner=None).values_list("owner__name", flat=True),
            *(row[2] for row in incidents),
        },
        "severity": {"page", "ticket"},
    }
    for name, table in NAMED_BY.items():
        names = table._default_manager.values_list("name", flat=True)
        values[name] = {*names, *(scope[name] for scope in scopes if name in scope)}
    return {name: sorted(each - {""}) for name, each in values.items()}


def check(matchers: Sequence[str], known: Mapping[str, Sequence[str]]) -> None:
    """Raises ValidationError for a value that nothing has, and for a name that is to have two values at once."""
    read = [matcher(text) for text in matchers]
    problems = [_unknown(each.name, each.value, known[each.name]) for each in read if each.name in CHECKED]
    wanted = Counter(each.name for each in read if each.op == "=" and "*" not in each.value)
    twice = sorted(name for name, number in wanted.items() if number > 1)
    problems += [f"{name} is given twice, and nothing has two: make a silence for each." for name in twice]
    if refused := [problem for problem in problems if problem]:
        raise ValidationError({"matchers": refused})


def _unknown(name: str, value: str, known: Sequence[str]) -> str:
    if any(fnmatchcase(each, value.replace("[", "[[]")) for each in known) or value == "?*":
        return ""
    close = get_close_matches(value, known, 1)
    remedy = f"did you mean {close[0]}?" if close else f"there is {', '.join(known[:10]) or 'none'}."
    return f"{name}={value[:80]} is nothing that there is: {remedy}"

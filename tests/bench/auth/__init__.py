"""How long the rule takes that says who may do what: every action, by people of many teams, with objects of one team and of two."""

import time
from collections.abc import Iterator
from itertools import product
from statistics import median

from controlplane.accounts.core import actions
from controlplane.accounts.core.rule import ROLES, Action, Owned, Person, may
from tests.bench.figures import Figure

TEAMS, ROUNDS = 50, 200


def run() -> Iterator[Figure]:
    asked = [action for action in vars(actions).values() if isinstance(action, Action)]
    roles = {f"team-{number}": set(list(ROLES)[: number % 5]) for number in range(TEAMS)}
    people = (
        Person("ann", roles=roles),
        Person("ann", roles=roles, scopes=frozenset({"respond"})),
        Person("ada", True),
    )
    objects = (Owned.by("team-3"), Owned.by("team-3", "team-49"), Owned.by("nobodys"), Owned())
    questions = list(product(people, asked, objects))
    took_us = []
    for _ in range(ROUNDS):
        began_ns = time.perf_counter_ns()
        for person, action, of in questions:
            may(person, action, of)
        took_us.append((time.perf_counter_ns() - began_ns) / len(questions) / 1_000)
    yield Figure("auth.may_us", median(took_us), "us")

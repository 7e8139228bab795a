"""How long the rule takes that says who may do what: every action, by people of many teams, with objects of one team and of two. How long
a token of an issuer takes that a gateway has not seen, with a key that it has, and one that it has seen. And what it takes to look a text
through.
"""

import time
from collections.abc import Iterator
from itertools import product
from statistics import median

from controlplane.accounts.core import actions
from controlplane.accounts.core.rule import ROLES, Action, Owned, Person, may
from deploy.local.process import ROOT
from inference.contract.snapshot import key_digest
from inference.core.guard.patterns import find
from inference.snapshot.issuers import Issuers, KeySet
from tests.bench.figures import Figure
from tests.support.gateway.issuer import ISSUER, AnIssuer

TEAMS, ROUNDS = 50, 200
TOKENS = 500


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
    for algorithm, name in (("RS256", "auth.jwt_us"), ("ES256", "auth.jwt_es256_us"), ("EdDSA", "auth.jwt_eddsa_us")):
        here = AnIssuer(algorithm)
        tokens = [here.token(sub=f"user-{number}") for number in range(TOKENS)]
        issuers, known = Issuers("key"), KeySet(here.known_as(user_claim="sub"))
        known.take(here.keys())
        issuers.sets[ISSUER] = known
        yield Figure(name, _verify_us(issuers, tokens), "us")
    yield Figure("auth.jwt_known_us", _verify_us(issuers, tokens), "us")
    yield Figure("guard.patterns_us_per_kb", _patterns_us_per_kb(), "us")


def _patterns_us_per_kb() -> float:
    """Of the documentation, a kilobyte at a time: the fastest of some rounds, in the thread's own time."""
    text = "".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
    parts = [text[at : at + 1024] for at in range(0, len(text), 1024)]
    rounds = []
    for _ in range(9):
        began_ns = time.thread_time_ns()
        for part in parts:
            find(part, ("card", "key", "mail"))
        rounds.append(time.thread_time_ns() - began_ns)
    return min(rounds) / len(parts) / 1_000


def _verify_us(issuers: Issuers, tokens: list[str]) -> float:
    took_ns = []
    for token in tokens:
        began_ns = time.perf_counter_ns()
        issuers.verify(token, key_digest(token))
        took_ns.append(time.perf_counter_ns() - began_ns)
    return median(took_ns) / 1_000

"""What is said of the public keys of issuers."""

from inference.observability.metrics import Labelled
from inference.snapshot.issuers import Issuers, KeySet
from inference.status.labelled import PREFIX


def standing(issuers: Issuers) -> dict[str, str]:
    """By issuer: `up`, or why its keys could not be fetched the last time, and whether the ones before are used."""
    return {known.issuer.name: _said(known) for known in issuers.sets.values()}


def gauges(issuers: Issuers) -> list[Labelled]:
    """Nothing where there are no issuers. The age of keys that were never fetched is not known, and left out."""
    if not issuers.sets:
        return []
    up, ages = dict[tuple[str, ...], float](), dict[tuple[str, ...], float]()
    for known in issuers.sets.values():
        up[known.issuer.name,] = float(known.holds)
        if known.age_s is not None:
            ages[known.issuer.name,] = known.age_s
    return [
        (f"{PREFIX}issuer_up", "Whether there are public keys that tokens are taken by.", ("issuer",), up),
        (f"{PREFIX}issuer_keys_age_seconds", "Since the public keys were fetched last.", ("issuer",), ages),
    ]


def _said(known: KeySet) -> str:
    if not known.error:
        return "up" if known.holds else "its keys are being fetched"
    return f"{'stale' if known.holds else 'down'}: {known.error}"

"""For how long an incident outlasts its alert, and a person's word."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Rules:
    """`hold`: an incident resolves once its alert has been quiet for so long, which is more than two ticks of a slow controller.
    `cool_down`: an incident that a person resolved stays resolved for so long, though its alert fires."""

    hold: timedelta = timedelta(minutes=2)
    cool_down: timedelta = timedelta(minutes=15)


RULES = Rules()

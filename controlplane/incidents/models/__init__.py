"""Incidents and their timelines, silences, and what was changed."""

from controlplane.incidents.models.change import ChangeRecord
from controlplane.incidents.models.incident import Entry, Incident
from controlplane.incidents.models.silence import SilenceRecord

__all__ = ["ChangeRecord", "Entry", "Incident", "SilenceRecord"]

"""What was changed shortly before something went wrong. It needs only the database."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from controlplane.fleet.changes import DECISIONS
from controlplane.incidents.models import ChangeRecord

CHANGES_BEFORE = timedelta(minutes=30)
MAX_CHANGES = 5


def changed_before(scope: Mapping[str, str], began: datetime, until: datetime) -> list[ChangeRecord]:
    """Changes that touch a scope, the latest first, at most MAX_CHANGES: from CHANGES_BEFORE before `began`, the earliest time at which
    it may have begun, to `until`, when it had begun. What Weir itself did from `began` on may be its answer, and is not named."""
    records = ChangeRecord.objects.filter(at__gte=began - CHANGES_BEFORE, at__lte=until).order_by("-at", "-id")
    touching = (record for record in records if record.touches(scope))
    return [record for record in touching if record.at < began or record.source != DECISIONS][:MAX_CHANGES]

"""The calendar that each demand series is forecast on: its region's holidays and local time, and its planned events."""

from dataclasses import replace

import structlog

from controlplane.planning.models import PlannedEvent, RegionCalendar
from forecasting.calendar import Calendar, CalendarError
from forecasting.demand import DemandKey

log = structlog.get_logger(__name__)


class Calendars:
    """Everything that people have entered, read once."""

    def __init__(self) -> None:
        self._regions = {row.region.name: row for row in RegionCalendar.objects.select_related("region")}
        self._events = list(PlannedEvent.objects.filter(enabled=True))

    def calendar_of(self, key: DemandKey) -> Calendar:
        """UTC without holidays where nothing was entered. What cannot be used is logged and left out."""
        row = self._regions.get(key.region)
        calendar = Calendar()
        if row is not None:
            try:
                calendar = row.to_calendar()
            except CalendarError as error:
                log.warning("calendar.refused", region=key.region, reason=str(error))
        events = []
        for event in self._events:
            if event.concerns(key.model, key.tier, key.region):
                try:
                    events.append(event.to_event())
                except CalendarError as error:
                    log.warning("planned_event.refused", event=event.pk, reason=str(error))
        return replace(calendar, events=tuple(events))

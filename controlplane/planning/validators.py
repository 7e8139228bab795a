"""Checks calendars in forms. Messages name the value and the remedy."""

from functools import cache
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError


@cache
def countries() -> frozenset[str]:
    """The countries whose holidays are known, by ISO 3166 code."""
    import holidays  # takes a moment to import, and few processes need it

    return frozenset(holidays.list_supported_countries())


def validate_country(value: str) -> None:
    if value not in countries():
        raise ValidationError(
            "“%(value)s” is no country whose holidays are known: use its ISO 3166 code, such as DE or US.",
            params={"value": value},
        )


def validate_zone(value: str) -> None:
    if value not in available_timezones():
        raise ValidationError(
            "“%(value)s” is no time zone: use an IANA name, such as Europe/Berlin.", params={"value": value}
        )

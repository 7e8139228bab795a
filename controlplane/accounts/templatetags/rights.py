"""`{% refused "RESPOND" incident as refused %}`: the rule's answer for who reads the page."""

from typing import Any

from django import template

from controlplane.accounts import rights
from controlplane.accounts.core import actions

register = template.Library()


@register.simple_tag(takes_context=True)
def refused(context: Any, action: str, thing: object = None, to: str = "") -> str:
    """Whom to ask, as a sentence, `to` do what; empty where the reader may. Without a thing: where there is none with which he may."""
    user, wanted = context["request"].user, getattr(actions, action)
    allowed = rights.may_anywhere(user, wanted) if thing is None else rights.may(user, wanted, thing)
    words = f"To {to}, ask" if to else "Ask"
    return "" if allowed else f"{words} {rights.who_may(wanted, thing)}."

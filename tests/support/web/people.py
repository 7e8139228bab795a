"""Users with the roles that tests need."""

from importlib import import_module

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.core.rule import Role
from controlplane.accounts.models import Membership
from controlplane.fleet.models import Team
from tests.support.past_the_audit import unrecorded


@unrecorded()
def member(name: str, *roles: Role, team: str = "serving") -> User:
    """A person with these roles in a team, which is made where there is none."""
    user = User.objects.create_user(name)
    row, _ = Team.objects.get_or_create(name=team)
    Membership.objects.bulk_create(Membership(team=row, user=user, role=role) for role in roles)
    return user


def on_call(name: str) -> User:
    """Acts on incidents and silences of the team `serving`, and changes nothing else."""
    return member(name, "responder")


def logged_in(user: User) -> Client:
    """A browser with a session of theirs. Of the log-in nobody is told, and nothing is written down, as `force_login` would, which takes
    25 statements.
    """
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
    session.save()
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return client

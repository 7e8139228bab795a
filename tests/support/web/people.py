"""Users with the roles that tests need."""

from django.contrib.auth.models import User

from controlplane.accounts.core.rule import Role
from controlplane.accounts.models import Membership
from controlplane.fleet.models import Team


def member(name: str, *roles: Role, team: str = "serving") -> User:
    """A person with these roles in a team, which is made where there is none."""
    user = User.objects.create_user(name)
    row, _ = Team.objects.get_or_create(name=team)
    Membership.objects.bulk_create(Membership(team=row, user=user, role=role) for role in roles)
    return user


def on_call(name: str) -> User:
    """Acts on incidents and silences of the team `serving`, and changes nothing else."""
    return member(name, "responder")

"""Users with the rights that tests need."""

from django.contrib.auth.models import Group, User

from controlplane.incidents.act.rights import ON_CALL


def on_call(name: str) -> User:
    """Acts on incidents and silences, and changes nothing in the admin."""
    user = User.objects.create_user(name)
    user.groups.add(Group.objects.get(name=ON_CALL))
    return user

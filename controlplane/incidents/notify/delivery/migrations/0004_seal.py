"""Encrypts the secrets that are there, and back. Makes a key where there is none; going back needs the keys."""

from typing import Any

from django.db import migrations

from controlplane.incidents.notify.delivery.secrets import keyring

WITH_SECRETS = ("Endpoint", "HookSecret")


def seal(apps: Any, schema_editor: Any) -> None:
    rows = [row for name in WITH_SECRETS for row in apps.get_model("delivery", name).objects.all()]
    if not rows:
        return
    keys = keyring.to_seal(lambda: False)
    for row in rows:
        row.sealed = keys.seal(row.secret)
        if hasattr(row, "digest"):
            row.digest = keys.digests(row.secret)[0]
        row.secret = ""
        row.save()


def open_again(apps: Any, schema_editor: Any) -> None:
    for name in WITH_SECRETS:
        for row in apps.get_model("delivery", name).objects.all():
            row.secret = keyring.to_open().open(row.sealed)
            row.save()


class Migration(migrations.Migration):
    dependencies = [("delivery", "0003_sealed_columns")]

    operations = [migrations.RunPython(seal, open_again)]

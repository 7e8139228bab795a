"""Room for encrypted secrets beside the plain ones, which 0004 encrypts and 0005 removes."""

from typing import Any

from django.db import migrations, models


def forget_thoroughly(apps: Any, schema_editor: Any) -> None:
    """SQLite leaves what is removed in the file until it is written over, unless told otherwise."""
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("PRAGMA secure_delete = ON")


class Migration(migrations.Migration):
    dependencies = [("delivery", "0002_hook_incident_id")]

    operations = [
        migrations.RunPython(forget_thoroughly, migrations.RunPython.noop, elidable=True),
        migrations.RemoveConstraint("endpoint", "one_endpoint_per_address"),
        migrations.AlterField("endpoint", "secret", models.CharField(max_length=500, blank=True, default="")),
        migrations.AlterField("hooksecret", "secret", models.CharField(max_length=200, default="")),
        migrations.AddField("endpoint", "sealed", models.TextField(editable=False, default="")),
        migrations.AddField("endpoint", "digest", models.CharField(max_length=64, editable=False, default="")),
        migrations.AddField("hooksecret", "sealed", models.TextField(editable=False, default="")),
    ]

"""`told` is said only of incidents whose notice was queued for a destination; the timeline calls that "queued"."""

from typing import Any

from django.db import migrations, models

KINDS = [
    ("opened", "opened"),
    ("escalated", "escalated"),
    ("told", "queued"),
    ("held", "held back"),
    ("released", "no longer held back"),
    ("signal", "signal"),
    ("eased", "eased"),
    ("acknowledged", "acknowledged"),
    ("resolved", "resolved"),
    ("note", "note"),
    ("attributed", "attributed"),
    ("cooled", "cooled down"),
    ("reopened", "opened again"),
]


def forget_what_was_not_queued(apps: Any, schema_editor: Any) -> None:
    """Open incidents that no destination took: the next tick says so, or sends them."""
    queued = apps.get_model("delivery", "Delivery").objects.filter(action="trigger")
    open_ones = apps.get_model("incidents", "Incident").objects.exclude(status="resolved").exclude(told="")
    open_ones.exclude(notice_key__in=queued.values("key")).update(told="")


class Migration(migrations.Migration):
    dependencies = [("incidents", "0004_gone_since"), ("delivery", "0005_no_plain_secrets")]

    operations = [
        migrations.AlterField("entry", "kind", models.CharField(choices=KINDS, max_length=20)),
        migrations.AlterField(
            "incident",
            "told",
            models.CharField(
                blank=True,
                choices=[("page", "Page"), ("ticket", "Ticket")],
                help_text="The severity that was queued for a destination; empty: none.",
                max_length=10,
            ),
        ),
        migrations.RunPython(forget_what_was_not_queued, migrations.RunPython.noop),
    ]

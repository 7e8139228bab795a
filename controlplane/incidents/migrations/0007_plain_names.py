"""Plain names for columns, and for the kinds of a timeline's entries."""

from typing import Any

from django.db import migrations, models

KINDS = [
    ("opened", "opened"),
    ("escalated", "escalated"),
    ("queued", "queued"),
    ("withheld", "not sent"),
    ("released", "no longer withheld"),
    ("signal", "signal"),
    ("downgraded", "downgraded"),
    ("acknowledged", "acknowledged"),
    ("resolved", "resolved"),
    ("note", "note"),
    ("attributed", "attributed"),
    ("cooled", "cooled down"),
    ("reopened", "opened again"),
]
ENTRY_KINDS = {"told": "queued", "held": "withheld", "eased": "downgraded"}
WITHHELD = {"easing": "downgraded"}


def rename(apps: Any, schema_editor: Any) -> None:
    _replace(apps, ENTRY_KINDS, WITHHELD)


def rename_back(apps: Any, schema_editor: Any) -> None:
    _replace(apps, {new: old for old, new in ENTRY_KINDS.items()}, {new: old for old, new in WITHHELD.items()})


def _replace(apps: Any, kinds: dict[str, str], reasons: dict[str, str]) -> None:
    for old, new in kinds.items():
        apps.get_model("incidents", "Entry").objects.filter(kind=old).update(kind=new)
    for old, new in reasons.items():
        apps.get_model("incidents", "Incident").objects.filter(withheld=old).update(withheld=new)


class Migration(migrations.Migration):
    dependencies = [("incidents", "0006_components")]

    operations = [
        migrations.RenameField("incident", "told", "queued_as"),
        migrations.RenameField("incident", "gone_since", "missing_since"),
        migrations.RenameField("incident", "eased_since", "downgraded_since"),
        migrations.RenameField("incident", "promise", "definition"),
        migrations.AlterField(
            model_name="entry",
            name="kind",
            field=models.CharField(choices=KINDS, max_length=20),
        ),
        migrations.AlterField(
            model_name="incident",
            name="definition",
            field=models.JSONField(default=dict, help_text="The objective, or the component's kind, at opening."),
        ),
        migrations.AlterField(
            model_name="incident",
            name="downgraded_since",
            field=models.DateTimeField(blank=True, help_text="Since when it fires only as a ticket.", null=True),
        ),
        migrations.AlterField(
            model_name="incident",
            name="missing_since",
            field=models.DateTimeField(
                blank=True, help_text="Since when its objective is judged without it.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="incident",
            name="queued_as",
            field=models.CharField(
                blank=True,
                choices=[("page", "Page"), ("ticket", "Ticket")],
                help_text="The severity of its notice in the outbox; empty: there is none.",
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="incident",
            name="withheld",
            field=models.CharField(blank=True, help_text="Why no notice is sent, in a word.", max_length=20),
        ),
        migrations.RunPython(rename, rename_back),
    ]

"""Gives the subject of an alarm a column of its own: it stood in `pool`, also where it was a model or a cluster."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models.functions import Substr


def move(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    db = editor.connection.alias
    changes = apps.get_model("policy", "DecisionChange").objects.using(db).filter(kind="alarm")
    changes.update(subject=models.F("pool"))
    pools = apps.get_model("fleet", "Pool").objects.using(db).values_list("name", flat=True)
    others = changes.exclude(pool__in=list(pools)).exclude(pool__startswith="gateway:")
    names = apps.get_model("fleet", "LLMModel").objects.using(db).values_list("name", flat=True)
    others.filter(subject__in=list(names)).update(model=models.F("subject"))
    others.update(pool="")


def move_back(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    changes = apps.get_model("policy", "DecisionChange").objects.using(editor.connection.alias).filter(kind="alarm")
    changes.update(pool=Substr("subject", 1, 100), model="")


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0001_initial"),
        ("policy", "0004_shadow_records"),
    ]

    operations = [
        migrations.AddField(
            model_name="decisionchange",
            name="subject",
            field=models.CharField(
                blank=True,
                help_text="Of an alarm: a pool, a model or a cluster. The first two stand in their own columns too.",
                max_length=200,
            ),
        ),
        migrations.RunPython(move, move_back),
    ]

"""How many GPUs a replica has on its pool's own GPU type is said by the pool alone; an entry says it of another type."""

import django.core.validators
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def move(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """Plans used an entry's figure, so a pool that still has the default gets it."""
    entries = apps.get_model("planning", "ReplicaCapacityEntry").objects.using(editor.connection.alias)
    for entry in entries.filter(gpu_type=models.F("pool__gpu_type")).select_related("pool").order_by("source"):
        if entry.pool.gpus_per_replica == 1 and entry.gpus_per_replica:
            entry.pool.gpus_per_replica = entry.gpus_per_replica
            entry.pool.save(update_fields=["gpus_per_replica"])
        entry.gpus_per_replica = None
        entry.save(update_fields=["gpus_per_replica"])


def move_back(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    entries = apps.get_model("planning", "ReplicaCapacityEntry").objects.using(editor.connection.alias)
    for entry in entries.filter(gpus_per_replica=None).select_related("pool"):
        entry.gpus_per_replica = entry.pool.gpus_per_replica
        entry.save(update_fields=["gpus_per_replica"])


_LIMITS = [django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1024)]


class Migration(migrations.Migration):
    dependencies = [
        ("planning", "0003_measured"),
    ]

    operations = [
        migrations.AlterField(
            model_name="poolcapacity",
            name="gpus_per_replica",
            field=models.PositiveSmallIntegerField(
                default=1, help_text="Of the pool's GPU type.", validators=_LIMITS, verbose_name="GPUs per replica"
            ),
        ),
        migrations.AlterField(
            model_name="replicacapacityentry",
            name="gpus_per_replica",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Where a replica on this type needs another number than on the pool's own type. Empty: as many.",
                null=True,
                validators=_LIMITS,
                verbose_name="GPUs per replica",
            ),
        ),
        migrations.RunPython(move, move_back),
    ]

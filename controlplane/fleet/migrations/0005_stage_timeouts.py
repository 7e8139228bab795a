from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def _rename_permissions(apps: Apps, editor: BaseDatabaseSchemaEditor, old: str, new: str) -> None:
    """Keep what people were granted: Django 5.2 renames a model's content type, and leaves its permissions."""
    permissions = apps.get_model("auth", "Permission").objects.using(editor.connection.alias)
    for permission in permissions.filter(content_type__app_label="fleet", codename__endswith="_" + old):
        action = permission.codename.partition("_")[0]
        permission.codename, permission.name = f"{action}_{new}", f"Can {action} stage {new.removeprefix('stage')}"
        permission.save()


def _forwards(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    _rename_permissions(apps, editor, "stagebudgets", "stagetimeouts")


def _backwards(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    _rename_permissions(apps, editor, "stagetimeouts", "stagebudgets")


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0004_cache_scope_and_token_limits"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.RemoveConstraint("StageBudgets", "one_row_of_stage_budgets"),
        migrations.RenameModel("StageBudgets", "StageTimeouts"),
        migrations.AlterModelOptions(
            "StageTimeouts", {"verbose_name": "stage timeouts", "verbose_name_plural": "stage timeouts"}
        ),
        migrations.AddConstraint(
            "StageTimeouts",
            models.CheckConstraint(condition=models.Q(("id", 1)), name="one_row_of_stage_timeouts"),
        ),
        migrations.RunPython(_forwards, _backwards),
    ]

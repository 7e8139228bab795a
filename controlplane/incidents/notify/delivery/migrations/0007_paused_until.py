import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("delivery", "0006_kinds_from_destinations")]

    operations = [
        migrations.RenameField("endpoint", "held_until", "paused_until"),
        migrations.AlterField(
            model_name="destination",
            name="fallback",
            field=models.ForeignKey(
                blank=True,
                help_text="Gets the pages that cannot be delivered here.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="delivery.destination",
            ),
        ),
        migrations.AlterField(
            model_name="destination",
            name="takes_changes",
            field=models.BooleanField(
                default=True, help_text="Policy revisions and deployments go here, too.", verbose_name="takes changes"
            ),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("delivery", "0004_seal")]

    operations = [
        migrations.RemoveField("endpoint", "secret"),
        migrations.RemoveField("hooksecret", "secret"),
        migrations.AlterField("endpoint", "sealed", models.TextField(editable=False)),
        migrations.AlterField("endpoint", "digest", models.CharField(max_length=64, editable=False)),
        migrations.AlterField("hooksecret", "sealed", models.TextField(editable=False)),
        migrations.AddConstraint(
            "endpoint", models.UniqueConstraint(fields=["kind", "url", "digest"], name="one_endpoint_per_address")
        ),
    ]

"""Which weeks of the store are synthetic."""

from django.db import models


class DemoHistory(models.Model):
    """A range of synthetic history that `manage.py demo_history` wrote. Pages that show it say so; `--delete` removes it."""

    from_s = models.BigIntegerField(help_text="Its start, s since the epoch.")
    to_s = models.BigIntegerField(help_text="Its end, s since the epoch.")
    requests = models.BigIntegerField(help_text="How many it stands for.")
    seed = models.BigIntegerField()
    complete = models.BooleanField(default=False, help_text="False while it is written, or where that was interrupted.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "synthetic history"
        verbose_name_plural = "synthetic histories"
        ordering = ["-from_s"]

    def __str__(self) -> str:
        return f"{self.requests} synthetic requests"

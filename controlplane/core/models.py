"""Which process leads."""

from django.db import models


class Lease(models.Model):
    """Which process may do work that only one may do at a time, and until when."""

    name = models.CharField(max_length=100, unique=True)
    holder = models.CharField(max_length=200)
    expires_at = models.DateTimeField()
    generation = models.PositiveBigIntegerField(default=0, help_text="Grows each time another process takes it.")

    def __str__(self) -> str:
        return f"{self.name}: {self.holder}"

"""What is called by its name."""

from django.db import models


class Named(models.Model):
    """Sorted by `name`, which each model has with bounds of its own."""

    name: "models.CharField[str, str]"

    class Meta:
        abstract = True
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

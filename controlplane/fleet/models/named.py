"""What is called by its name."""

from itertools import chain, count
from typing import Any

from django.db import models
from django.utils.text import slugify

from controlplane.fleet.validators import validate_name


class Named(models.Model):
    """Sorted by `name`, which each model has with bounds of its own."""

    name: "models.CharField[str, str]"

    class Meta:
        abstract = True
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class NamedByStart(Named):
    """What people call as they like, and files by `slug`. Where a file has not named it, that is made of its name and its start."""

    slug = models.CharField(max_length=100, unique=True, editable=False, validators=[validate_name])

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self.slug:
            made = "-".join(filter(None, (slugify(self.name)[:80] or self._meta.model_name, self.starts())))
            taken = set(type(self)._default_manager.filter(slug__startswith=made).values_list("slug", flat=True))
            numbered = (f"{made}-{number}" for number in count(2))
            self.slug = next(slug for slug in chain([made], numbered) if slug not in taken)
        super().save(*args, **kwargs)

    def starts(self) -> str:
        """`20261201-0900`."""
        raise NotImplementedError

"""What an owner decides about answers for similar requests (docs/semantic-cache.md)."""

from collections.abc import Set
from typing import Any, Self

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models


class SimilarRequests(models.Model):
    """Of a model."""

    class SemanticMode(models.TextChoices):
        OFF = "off", "No"
        SHADOW = "shadow", "Compare their answers, and serve nothing"
        ON = "on", "Serve what compared answers have shown to be right"

    semantic_mode = models.CharField(
        "similar requests",
        max_length=10,
        choices=SemanticMode.choices,
        default=SemanticMode.OFF,
        help_text="Whether a request may get the answer of one that says the same in other words, and how that begins "
        "(docs/semantic-cache.md).",
    )
    semantic_embedder = models.ForeignKey(
        "fleet.LLMModel",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        verbose_name="embedder",
        help_text="The model that makes vectors of requests' texts, with an /v1/embeddings of its own.",
    )
    semantic_wrong_percent = models.FloatField(
        "wrong at most, %",
        default=1.0,
        validators=[MinValueValidator(0.1), MaxValueValidator(20.0)],
        help_text="Of what is served for similar requests. With 1 it takes some 700 compared answers until anything is, with 5 some 140.",
    )
    semantic_other_words = models.BooleanField(
        "other words",
        default=False,
        help_text="Texts that differ in words of which nothing is known are compared too. Without it they are always refused.",
    )
    semantic_timely = models.BooleanField(
        "today, now and my",
        default=False,
        help_text="Texts whose answer depends on when, or by whom, it was asked are looked up too. Leave it off unless the answers stay "
        "right for as long as they are kept, and for all people of a tenant.",
    )
    semantic_judge = models.ForeignKey(
        "fleet.LLMModel",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        verbose_name="judge of other words",
        help_text="A chat model that is asked whether one answer is right for two texts in other words; only where it agrees are "
        "they compared, and served. It sees the texts.",
    )
    semantic_judge_ms = models.PositiveIntegerField(
        "judging, ms",
        default=500,
        validators=[MinValueValidator(1)],
        help_text="A request waits for the judge for so long at most, and only where its answer would be served. Over it, it is a miss.",
    )
    semantic_across_tenants = models.BooleanField(
        "similar requests across tenants",
        default=False,
        help_text="Where the cache is shared by all tenants, the answers of similar requests are too.",
    )
    semantic_embed_ms = models.PositiveIntegerField(
        "embedding, ms",
        default=50,
        validators=[MinValueValidator(1)],
        help_text="A request waits for its vector for so long at most, and only while similar requests are served.",
    )

    class Meta:
        abstract = True

    _named: Set[tuple[str, int]] = frozenset()

    @classmethod
    def from_db(cls, *args: Any, **kwargs: Any) -> Self:
        row = super().from_db(*args, **kwargs)
        row._named = row._names()
        return row

    def names_anew(self) -> list[Any]:
        """The models that it names anew, to embed or to judge: what that costs, and shows, is their teams' matter too."""
        return [getattr(self, field) for field, pk in self._names() - self._named]

    def _names(self) -> set[tuple[str, int]]:
        fields = ("semantic_embedder", "semantic_judge")
        return {(field, pk) for field in fields if (pk := self.__dict__.get(f"{field}_id"))}

    def clean(self) -> None:
        super().clean()
        if self.semantic_mode == self.SemanticMode.OFF:
            return
        if self.semantic_timely and self.semantic_across_tenants:
            raise ValidationError(
                {"semantic_timely": "What one tenant calls its own is not another's: turn one of the two off."}
            )
        if self.semantic_embedder is None:
            raise ValidationError({"semantic_embedder": "Choose the model that makes vectors of the texts."})
        if self.semantic_embedder.pk == self.pk:
            raise ValidationError({"semantic_embedder": "Choose another model: this one answers."})
        if self.semantic_judge is not None and self.semantic_judge.pk == self.pk:
            raise ValidationError({"semantic_judge": "Choose another model: this one answers."})

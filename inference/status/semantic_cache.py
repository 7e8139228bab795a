"""What `/readyz` and `/metrics` say of the semantic cache: whether it looks up, how much evidence there is, and what came of look-ups."""

from inference.observability.metrics import Labelled
from inference.request.semantic.lookup import Semantic
from inference.snapshot.serving import Serving
from inference.status.labelled import PREFIX, alone

_EVIDENCE = {
    "labels": "Answers compared with a similar request's, since the evidence began.",
    "labels_wanted": "How many a threshold needs that has seen nothing wrong.",
    "wrong": "Of them those that were wrong, by the request's own answer or a person's mark.",
    "marks": "Of these those that people marked.",
    "certified": "Whether there is enough evidence to serve.",
    "threshold": "The least similarity that is served; left out where nothing is.",
    "broke": "1 for an hour after answers were seen to have become wrong.",
    "changes": "How often answers became wrong, so that the evidence began again.",
}
_SAID_FOR_S = 3600.0


def standing(serving: Serving | None, semantic: Semantic | None) -> str:
    """Whether similar requests are looked up: `off` where no model wants that, `up`, `off:` and why not, or `up:` and what is missing."""
    models = serving.models if serving is not None else {}
    wanted = {name: it.model.cache.semantic for name, it in models.items() if it.model.cache.semantic.mode != "off"}
    if not wanted:
        return "off"
    if semantic is None:
        return "off: there is no Redis"
    without = sorted(name for name, rule in wanted.items() if rule.embedder not in models)
    reason = semantic.store.reason or (f"no embedder is known for {', '.join(without)}" if without else "")
    if reason:
        return f"off: {reason}"
    if semantic.store.unkept:
        return f"up: nothing new is learnt: {semantic.store.unkept}"
    unjudged = sorted(name for name, rule in wanted.items() if rule.judge and rule.judge not in models)
    return f"up: no judge is known for {', '.join(unjudged)}, so other words are misses there" if unjudged else "up"


def gauges(serving: Serving | None, semantic: Semantic | None) -> list[Labelled]:
    """Nothing where no model wants similar requests to be looked up."""
    stands = standing(serving, semantic)
    if stands == "off":
        return []
    evidence: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in _EVIDENCE}
    examples: dict[tuple[str, ...], float] = {}
    for route in semantic.labels.in_use() if semantic is not None else ():
        known, labels = route.evidence, (route.model, route.name.hex()[:8], route.words, route.judge)
        evidence["labels"][labels], evidence["labels_wanted"][labels] = known.labels, known.labels_wanted
        evidence["wrong"][labels], evidence["marks"][labels] = known.wrong[0], route.marks
        evidence["changes"][labels] = known.changes
        evidence["broke"][labels] = broke = route.broke_lately(_SAID_FOR_S)
        examples |= {(*labels, request): 1.0 for request in route.wrong if broke}
        evidence["certified"][labels] = known.threshold is not None
        if known.threshold is not None:
            evidence["threshold"][labels] = known.threshold
    return [
        (f"{PREFIX}semantic_up", "Whether similar requests are looked up.", (), {(): float(stands.startswith("up"))}),
        *(
            (f"{PREFIX}semantic_{name}", about, ("model", "route", "words", "judge"), evidence[name])
            for name, about in _EVIDENCE.items()
        ),
        (
            f"{PREFIX}semantic_wrong_request",
            "The newest requests whose answer was another than a similar one's, for an hour after answers became wrong.",
            ("model", "route", "words", "judge", "request"),
            examples,
        ),
    ]


def counters(semantic: Semantic | None) -> list[Labelled]:
    counts: dict[tuple[str, ...], float] = dict(semantic.counts.items()) if semantic is not None else {}
    beside: dict[tuple[str, ...], float] = dict(semantic.beside.items()) if semantic is not None else {}
    changed = semantic.embedders.changed if semantic is not None else 0
    about = "Look-ups of similar requests, by what came of them."
    return [
        (f"{PREFIX}semantic_lookups", about, ("model", "result"), counts),
        (
            f"{PREFIX}semantic_begun_beside",
            "Inferences that began beside a look-up, by what came of them.",
            ("model", "result"),
            beside,
        ),
        alone(
            "semantic_embedder_changes", "How often an embedder gave other vectors than before under its name.", changed
        ),
    ]

"""What gateways count of look-ups, in a reader's words."""

_RESULTS = {
    "served": "served",
    "label": "answered by the model, to compare",
    "label_right": "compared and right",
    "label_wrong": "compared and wrong",
    "generate": "not similar enough to be served",
    "none_near": "nothing similar",
    "expired": "similar, but its answer had expired",
    "not_learnt": "not learnt: too many at once",
    "no_store": "no vectors in Redis",
    "no_embedder": "no embedder",
    "embedder_failed": "the embedder failed",
    "store_failed": "the search failed",
    "refused_judge": "the judge said they differ",
    "refused_judge_failed": "the judge failed",
    "refused_judge_no_text": "the judge could not be shown the text",
    "hit": "from the cache",
    "sent": "sent to the model",
}
_BEGINS = {"refused_": "they differ in", "not_eligible_": "not looked up because of"}


def result_words(result: str) -> str:
    """A name that nobody has put into words is shown without its underscores."""
    if result in _RESULTS:
        return _RESULTS[result]
    for begin, words in _BEGINS.items():
        if result.startswith(begin):
            return f"{words}: {result.removeprefix(begin).replace('_', ' ')}"
    return result.replace("_", " ")

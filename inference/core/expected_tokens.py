"""What a request will probably use, before it has begun: for its place in a fair queue and its share of a token limit."""

_BYTES_PER_TOKEN = 4  # of English text, roughly; the true number is settled when it is known
_FIRST_GUESS = 256.0  # output tokens of a model that has not answered yet
_MEAN_OVER = 32  # answers


def prompt_estimate(body_bytes: int, most: int) -> int:
    """Tokens of a prompt in a body of this size; `most` is the longest that its model takes."""
    return min(body_bytes // _BYTES_PER_TOKEN, most)


class OutputMeans:
    """The mean output of each model's last answers."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}

    def observe(self, model: str, tokens: int) -> None:
        before = self._means.get(model)
        self._means[model] = float(tokens) if before is None else before + (tokens - before) / _MEAN_OVER

    def expected(self, model: str, max_tokens: int | None) -> int:
        """Output tokens of the next answer, at most `max_tokens`."""
        mean = round(self._means.get(model, _FIRST_GUESS))
        return mean if max_tokens is None else min(mean, max_tokens)

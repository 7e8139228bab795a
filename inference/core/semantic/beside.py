"""Whether an inference begins beside the look-up of a similar request, to be cancelled if that is a hit."""

OVER = 64  # look-ups that the mean reaches over
MIN_SEEN = 32  # look-ups, before which the share is not known
MAX_SHARE = 0.5
"""With more hits than that, more is begun for nothing than is begun early."""


class HitShare:
    """Of a model's look-ups that its requests waited for, those that were hits: the newest count most."""

    def __init__(self) -> None:
        self.seen = 0
        self.share = 0.0

    def add(self, hit: bool) -> None:
        self.seen += 1
        self.share += (hit - self.share) / min(self.seen, OVER)

    @property
    def pays(self) -> bool:
        """Whether it is known that most look-ups are misses."""
        return self.seen >= MIN_SEEN and self.share <= MAX_SHARE

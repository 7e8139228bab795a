"""Damaged OTLP requests, and the settings of property tests."""

import random

from hypothesis import HealthCheck, settings

from tests.support.soak import sized

EXAMPLES = sized(100, soak=3000)
GENTLE = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def mutated(body: bytes, source: random.Random) -> bytes:
    """The body with a few bytes flipped, removed, repeated or inserted."""
    data = bytearray(body)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(data) + 1)
        match source.randrange(4):
            case 0:
                data[at : at + 1] = source.randbytes(1)
            case 1:
                del data[at : at + source.randint(1, 9)]
            case 2:
                data[at:at] = data[at : at + source.randint(1, 30)]
            case _:
                data[at:at] = source.randbytes(source.randint(1, 5))
    return bytes(data)

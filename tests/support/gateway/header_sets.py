"""Random header fields of requests, as any client may form them: among them all that anything reads, with good, odd and hostile values."""

import random
from collections.abc import Iterator

_BEGINNINGS = (b"weir-wup", b"weir-bch", b"weir", b"")
_OTHERS = (
    "tracestate", "baggage", "b3", "x-b3-traceid", "x-request-id", "idempotency-key", "x-weir-region", "x-weir-internal", "weir.internal",
    "x-stainless-retry-count", "x-stainless-read-timeout", "x-forwarded-for", "forwarded", "user-agent", "x-weir-cache", "triton-grpc-x",
)  # fmt: skip
_VALUES = (
    "true",
    "1",
    "weir.internal=true",
    "weir-wup",
    "0",
    "-1",
    "nan",
    "1e308",
    "127.0.0.1",
    "\xff\xfe",
    "a" * 3_000,
    "",
)


def header_sets(seed: int, number: int) -> Iterator[list[tuple[str, str]]]:
    """The fields of so many requests. Some want to be in one trace, and beneath spans that others name too."""
    draw = random.Random(seed)
    shared = [(_trace(draw), draw.randbytes(8).hex()) for _ in range(20)]
    for _ in range(number):
        fields = [(name, draw.choice(_VALUES)) for name in draw.sample(_OTHERS, draw.randrange(6))]
        if draw.random() < 0.9:
            fields.append(("traceparent", _traceparent(draw, shared)))
        draw.shuffle(fields)
        yield fields


def _trace(draw: random.Random) -> str:
    begin = draw.choice(_BEGINNINGS)
    return (begin + draw.randbytes(16 - len(begin))).hex()


def _traceparent(draw: random.Random, shared: list[tuple[str, str]]) -> str:
    trace, parent = draw.choice(shared) if draw.random() < 0.2 else (_trace(draw), draw.randbytes(8).hex())
    kind = draw.random()
    if kind < 0.05:
        trace, parent = draw.choice(
            ((trace, "0" * 16), ("0" * 32, parent), (trace.upper(), parent), (trace[:-1], parent))
        )
    text = (
        f"{draw.choice(('00', '00', '00', '01', 'ff'))}-{trace}-{parent}-{draw.choice(('00', '01', '03', 'ff', 'zz'))}"
    )
    return (
        text + draw.choice(("", "", "", "-more", "-"))
        if kind < 0.9
        else draw.choice(_VALUES) + text[draw.randrange(55) :]
    )

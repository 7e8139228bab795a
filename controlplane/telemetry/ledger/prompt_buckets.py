"""Groups requests by the length of their prompt."""

PROMPT_BUCKET_EDGES = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)
"""Upper edges of the prompt-length buckets in tokens, exclusive; the last bucket is open."""


def prompt_bucket(tokens: int | None) -> str:
    """The bucket's name as people read it, `"512-1023"`, `"131072+"`; empty where the length is unknown."""
    if tokens is None:
        return ""
    low = 0
    for edge in PROMPT_BUCKET_EDGES:
        if tokens < edge:
            return f"{low}-{edge - 1}"
        low = edge
    return f"{low}+"

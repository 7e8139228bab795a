"""Groups requests by the length of their prompt."""

PROMPT_BUCKET_EDGES = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)
"""Upper edges of the buckets in tokens, exclusive. The last bucket has no upper edge."""


def prompt_bucket(tokens: int | None) -> str:
    """The bucket's name, such as `"512-1023"` or `"131072+"`; empty where the length is not known."""
    if tokens is None:
        return ""
    low = 0
    for edge in PROMPT_BUCKET_EDGES:
        if tokens < edge:
            return f"{low}-{edge - 1}"
        low = edge
    return f"{low}+"

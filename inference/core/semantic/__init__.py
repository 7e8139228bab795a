"""When the answer to one text may be given for another: the pure part of the semantic cache (docs/semantic-cache.md)."""

"""Every URL of the web process."""

from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

SAMPLES = {
    "int": "1",
    "str": "x",
    "slug": "x",
    "uuid": "0b2f5e1e-5d54-4bd1-9c5c-07d6e1cbb4a1",
    "path": "x/y",
    "trace_id": "a" * 32,
}


def _urls(resolver: URLResolver, prefix: str = "/") -> Iterator[str]:
    for one in resolver.url_patterns:
        if not isinstance(one.pattern, RoutePattern):
            continue  # the admin's catch-all for what does not exist
        part = str(one.pattern)
        for name, converter in one.pattern.converters.items():
            kind = type(converter).__name__.removesuffix("Converter").lower()
            part = part.replace(f"<{name}>", SAMPLES["str"]).replace(f"<{kind}:{name}>", SAMPLES.get(kind, "x"))
        if isinstance(one, URLPattern):
            yield prefix + part
        else:
            yield from _urls(one, prefix + part)


def all_urls() -> list[str]:
    """A path for each, with samples in the places of parameters."""
    return sorted(set(_urls(get_resolver())))

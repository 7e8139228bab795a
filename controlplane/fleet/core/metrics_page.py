"""Says where the Prometheus page of a model server is."""

from inference.contract.address import parse_base_url


def entered_url(entered: str) -> str:
    """The URL of what was entered: a URL, or `host:port`, whose path is `/metrics`. Empty for nothing."""
    return entered if not entered or "//" in entered else f"http://{entered}/metrics"


def metrics_url(entered: str, kind: str, url: str) -> str:
    """Where a replica's Prometheus page is; empty where that is not known. What was entered counts first. Servers of a known
    `kind` have it beside their API at `url` (`/prometheus/metrics` of trtllm-serve: tensorrt_llm/serve/openai_server.py); a
    hosted API, which is another server, has none.
    """
    if entered or not url or kind in ("", "auto", "other", "unlisted"):
        return entered_url(entered)
    try:
        base = parse_base_url(url, link_local=True)
    except ValueError:  # the gateway reports such a replica
        return ""
    host = f"[{base.host}]" if ":" in base.host else base.host
    page = "/prometheus/metrics" if kind == "trtllm" else "/metrics"
    return f"{base.scheme}://{host}:{base.port}{base.path.removesuffix('/v1')}{page}"

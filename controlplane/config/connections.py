"""To whom a process of the control plane speaks, as its settings say."""

from urllib.parse import urlsplit

from controlplane.config import Config
from inference.contract.tls.clear_text import Connection, connections


def connections_of(config: Config) -> list[Connection]:
    """All but model servers, clusters and destinations of pages, which are rows of the database."""
    mail = "smtps" if config.mail_url else ""  # STARTTLS is wanted of every server but this machine's
    scheme = "https" if config.metrics_certificate else "http"
    return connections(
        (
            ("Redis", config.redis_url),
            ("database", config.database_url),
            ("store", config.store_dsn),
            ("gateway", config.gateway_url),
            ("lane", config.lane_url),
            ("web", config.web_url),
            ("telemetry", config.telemetry_url),
            ("telemetry, own spans", config.otlp_endpoint),
            ("mail server", mail and f"{mail}://{urlsplit(config.mail_url).netloc}"),
            *((f"log-in, {each.id}", each.url) for each in config.providers),
            ("metrics of the controller", f"{scheme}://{config.controller_host}:{config.controller_port}"),
            ("metrics of the worker", config.worker_metrics and f"{scheme}://{config.worker_metrics}"),
        )
    )

"""To whom a process of the control plane speaks, as its settings say."""

from controlplane.config import Config
from inference.contract.tls.clear_text import Connection, connections


def connections_of(config: Config) -> list[Connection]:
    """All but model servers, clusters and destinations of pages, which are rows of the database."""
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
        )
    )

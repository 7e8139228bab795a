"""A fleet as the launcher writes it."""

from typing import Any


def replica(name: str, port: int) -> dict[str, str]:
    return {"name": name} | {kind: f"127.0.0.1:{port + step}" for step, kind in enumerate(("grpc", "http", "metrics"))}


def fleet(*replicas: tuple[str, int], **pool: Any) -> dict[str, Any]:
    return {
        "models": [
            {
                "name": "chat-large",
                "pools": [
                    {
                        "name": "chat-large-local",
                        "variant": "chat-large",
                        "region": "local",
                        "model_name": "chat_large",
                        "model_version": "1",
                        "replicas": [replica(*one) for one in replicas],
                        **pool,
                    }
                ],
            }
        ]
    }

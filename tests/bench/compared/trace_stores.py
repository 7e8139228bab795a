"""Phoenix and MLflow as their documentation starts them: one process, SQLite, OTLP over HTTP."""

import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.compared.environments import bin_folder
from tests.bench.processes import Child, free_port, start


@dataclass(frozen=True)
class Peer:
    """`stored` counts what a reader of its database sees: durable and queryable."""

    name: str
    child: Child
    port: int
    database: Path
    headers: Mapping[str, str] = field(default_factory=dict)

    def stored(self) -> int:
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)) as connection:
            return int(connection.execute("SELECT count(*) FROM spans").fetchone()[0])


def phoenix(folder: Path, stack: ExitStack) -> Peer | None:
    environment = bin_folder("bench-phoenix")
    if environment is None:
        return None
    port = free_port()
    env = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    child = start(stack, "phoenix", [str(environment / "phoenix"), "serve"], folder, env, port=port, wait_s=180)
    return Peer("phoenix", child, port, folder / "phoenix.db")


def mlflow(folder: Path, stack: ExitStack) -> Peer | None:
    environment = bin_folder("bench-mlflow")
    if environment is None:
        return None
    port, database = free_port(), folder / "mlflow.db"
    command = [str(environment / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{database}", "--default-artifact-root", str(folder / "artifacts")]
    path = f"{environment}:/usr/bin:/bin"  # it starts its own server by name
    quiet = {"PATH": path, "MLFLOW_DISABLE_TELEMETRY": "true"}
    child = start(stack, "mlflow", command, folder, quiet, port=port, wait_s=180, cwd=folder)
    return Peer("mlflow", child, port, database, {"x-mlflow-experiment-id": "0"})

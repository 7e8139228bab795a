"""Asks a Triton what it is and what its model looks like, through tritonclient: its metadata, its repository and the model's
configuration.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]
from tritonclient.grpc.aio import InferenceServerClient  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from inference.backends.triton.facts import Model, Tensor
from inference.core.backend_errors import BackendError, BusyError, FailedError, UnreachableError
from inference.wires.grpc import Tls


class Server(NamedTuple):
    """`model` is None where the server does not have it ready; `missing` says why, with the remedy."""

    version: str
    models: tuple[str, ...]  # those that are ready
    model: Model | None
    missing: str = ""


async def look(
    address: str,
    name: str,
    version: str,
    timeout_s: float,
    tls: Tls | None = None,
    headers: Mapping[str, str] | None = None,
) -> Server:
    """What the server at `address` says. Raises BackendError if it says nothing within `timeout_s` for each answer."""
    given = {"client_timeout": timeout_s, "headers": dict(headers or {})}
    try:
        async with _client(address, tls) as client:
            server = await client.get_server_metadata(**given)
            models = await _repository(client, given)
            ready = tuple(dict.fromkeys(item.name for item in models if item.state == "READY"))
            if models and name not in ready:
                return Server(server.version, ready, None, _missing(name, ready, models))
            config = (await client.get_model_config(name, version, **given)).config
            decoupled = config.model_transaction_policy.decoupled
            for step in config.ensemble_scheduling.step:  # an ensemble answers as often as its models do
                if not decoupled:
                    inner = (await client.get_model_config(step.model_name, **given)).config
                    decoupled = inner.model_transaction_policy.decoupled
            return Server(server.version, ready, _model(config, decoupled))
    except InferenceServerException as error:
        status = str(error.status()).rpartition(".")[2].lower()
        kind: type[BackendError] = BusyError if status == "unavailable" else FailedError
        if kind is BusyError and "failed to connect" in error.message():
            kind = UnreachableError
        raise kind(f"Triton did not describe model {name!r}: {error.message()}", status) from None


async def _repository(client: Any, given: dict[str, Any]) -> Any:
    """The models of the repository; none where Triton restricts who may see them (`--grpc-restricted-protocol`)."""
    try:
        return (await client.get_model_repository_index(**given)).models
    except InferenceServerException:
        return ()


@asynccontextmanager
async def _client(address: str, tls: Tls | None) -> AsyncIterator[Any]:
    options = [("grpc.ssl_target_name_override", tls.server_name)] if tls and tls.server_name else None
    client = InferenceServerClient(
        address, ssl=tls is not None, root_certificates=tls.ca or None if tls else None, channel_args=options
    )
    try:
        yield client
    finally:
        await client.close()


def _missing(name: str, ready: tuple[str, ...], models: Any) -> str:
    for item in models:
        if item.name == name:
            return f"Triton has not loaded model {name!r} ({item.state or 'no state'}{item.reason and ': ' + item.reason}): load it"
    offered = ", ".join(ready) or "none"
    return f"Triton has no model {name!r}: name one of its models in the pool ({offered})"


def _model(config: Any, decoupled: bool) -> Model:
    return Model(
        config.name,
        config.backend,
        config.platform,
        config.max_batch_size > 0,
        decoupled,
        {item.name: Tensor(_datatype(item.data_type), item.optional) for item in config.input},
        {item.name: _datatype(item.data_type) for item in config.output},
        {key: value.string_value for key, value in config.parameters.items()},
    )


def _datatype(number: int) -> str:
    """As requests write it: TYPE_STRING is BYTES, TYPE_INT32 is INT32."""
    name = str(model_config_pb2.DataType.Name(number)).removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else name

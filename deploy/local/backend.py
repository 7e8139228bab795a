"""Finds out which models the servers of `WEIR_BACKEND_URL` have, before anything is started."""

import http.client
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from deploy.local.errors import CannotRunError
from inference.contract.address import Url, parse_base_url

CREDENTIAL = "backend"
"""The pools' name of the secret in WEIR_BACKEND_API_KEY."""
TIMEOUT_S = 10.0
MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Served:
    """A model that a server lists. `context_tokens` is 0 where it does not say."""

    name: str
    context_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    models: tuple[Served, ...]


def servers(urls: Sequence[str], api_key: str) -> list[Server]:
    """The servers with their models. Raises CannotRunError with the remedy where one cannot be used."""
    return [Server(url, _models(url, api_key)) for url in urls]


def _models(url: str, api_key: str) -> tuple[Served, ...]:
    try:
        base = parse_base_url(url)
    except ValueError as error:
        raise CannotRunError(f"WEIR_BACKEND_URL: {error}") from None
    status, body = _get(base, f"{base.path}/models", api_key, url)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        remedy = (
            "does not take the key in WEIR_BACKEND_API_KEY: correct it"
            if api_key
            else "wants a key: set WEIR_BACKEND_API_KEY"
        )
        raise CannotRunError(f"{url}/models answers {status}: the server {remedy}")
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise CannotRunError(
            f"{url}/models answers 503: the server is not ready yet; start again once it has loaded its model"
        )
    if status != HTTPStatus.OK:
        raise CannotRunError(
            f"{url}/models answers {status}: set WEIR_BACKEND_URL to the base of the API, such as {base.scheme}://{base.host}:{base.port}/v1"
        )
    models = _listed(body)
    if models is None:
        raise CannotRunError(
            f"{url}/models is not OpenAI's list of models: set WEIR_BACKEND_URL to a server with that API"
        )
    if not models:
        raise CannotRunError(f"{url}/models lists no model: load one on the server, and start again")
    return models


def _get(base: Url, path: str, api_key: str, url: str) -> tuple[int, bytes]:
    """Status and body. A redirect is not followed."""
    connect = http.client.HTTPSConnection if base.scheme == "https" else http.client.HTTPConnection
    connection = connect(base.host, base.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {api_key}"} if api_key else {})
        response = connection.getresponse()
        return response.status, response.read(MAX_BYTES)
    except TimeoutError:
        raise CannotRunError(
            f"{url} does not answer within {TIMEOUT_S:g} s: is the model server up, and the address right?"
        ) from None
    except OSError as error:  # also what TLS and name resolution raise
        reason = error.strerror or str(error) or type(error).__name__
        raise CannotRunError(
            f"{url} cannot be reached ({reason}): start the model server first, or correct WEIR_BACKEND_URL"
        ) from None
    except http.client.HTTPException as error:
        raise CannotRunError(f"{url} does not speak HTTP ({type(error).__name__}): correct WEIR_BACKEND_URL") from None
    finally:
        connection.close()


def _listed(body: bytes) -> tuple[Served, ...] | None:
    """The models of an answer; None where it is no list of models."""
    try:
        cards = json.loads(body)["data"]
        by_name = {str(card["id"]): card for card in cards}
        return tuple(Served(name, _context_tokens(card, by_name)) for name, card in by_name.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _context_tokens(card: dict[str, Any], by_name: Mapping[str, dict[str, Any]]) -> int:
    """As vLLM, SGLang and Dynamo say it. Of a LoRA adapter vLLM says it with the model that it belongs to."""
    tokens = card.get("max_model_len") or by_name.get(str(card.get("parent")), {}).get("max_model_len")
    return tokens if isinstance(tokens, int) and tokens > 0 else 0


def fleet(found_servers: Sequence[Server], with_key: bool) -> dict[str, Any]:
    """The fleet of these servers, as `run/fleet.json` has it: a model for each that one of them lists, with a pool of those
    that do.
    """
    by_name: dict[str, list[tuple[int, Server, Served]]] = {}
    for number, server in enumerate(found_servers):
        for served in server.models:
            by_name.setdefault(served.name, []).append((number, server, served))
    slugs: set[str] = set()
    return {"models": [_model(name, of, _slug(name, slugs), with_key) for name, of in by_name.items()]}


def _model(name: str, of: Sequence[tuple[int, Server, Served]], slug: str, with_key: bool) -> dict[str, Any]:
    return {
        "name": client_name(name),
        "tokenizer": "server",
        "context_tokens": min((served.context_tokens for _, _, served in of if served.context_tokens), default=0),
        "pools": [
            {
                "name": f"{slug}-server",
                "variant": slug,
                "region": "local",
                "model_name": name,
                "model_version": "",
                "protocol": "openai",
                "credential": CREDENTIAL if with_key else "",
                "replicas": [{"name": f"server-{number}", "url": server.url} for number, server, _ in of],
            }
        ],
    }


def client_name(name: str) -> str:
    """What clients call the model: the server's name of it, or what is left of that without characters that names have not.
    vLLM and llama.cpp call a model by its path if nobody names it.
    """
    return re.sub(r"[^A-Za-z0-9._:/-]+", "-", name).strip("._:/-") or "model"


def _slug(name: str, taken: set[str]) -> str:
    """A name for labels that no other model has: `meta-llama/Llama-3.1-8B` becomes `meta-llama-llama-3.1-8b`."""
    base = slug = re.sub(r"[^a-z0-9._-]+", "-", client_name(name).lower())[:80].strip("._-") or "model"
    number = 1
    while slug in taken:
        number += 1
        slug = f"{base}-{number}"
    taken.add(slug)
    return slug

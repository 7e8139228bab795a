"""Checks names and addresses in forms. Messages name the value and the remedy."""

import re

import msgspec
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import BaseValidator, MaxValueValidator, MinValueValidator

from inference.contract.address import parse_address, parse_base_url, parse_proxy, parse_url
from inference.contract.credentials import Header, check_header, value_and_secret
from inference.contract.image_hosts import is_host
from inference.contract.snapshot import TOKENIZERS, is_name
from inference.contract.snapshot_checks import check_trusted_url
from inference.contract.snapshot_parts import WARM_UP_BOUNDS
from inference.contract.stages import OPERATIONS
from inference.contract.tensor_mapping import TensorMapping, check_mapping

CACHE_KEY = re.compile("[0-9a-f]{64}")
"""The key of a cached answer."""
MAX_TTLS, MAX_TTL_S = 100, 31_536_000
NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")


def validate_name(value: str) -> None:
    """Names are used as span attributes, metric labels and URL parameters. This spelling is valid in all of them."""
    if not NAME.fullmatch(value):
        raise ValidationError(
            f"“{value}” is not a name: use lower-case letters, digits, “.”, “-” and “_”, such as “chat-large”."
        )


def warm_up_bounds(field: str) -> list[BaseValidator]:
    """Those of a number of a warm-up, as gateways have them."""
    least, most = WARM_UP_BOUNDS[field]
    return [MinValueValidator(least), MaxValueValidator(most)]


DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_dns_name(value: str) -> bool:
    """Whether Kubernetes takes it as an object's name (RFC 1123)."""
    return len(value) <= 253 and all(DNS_LABEL.fullmatch(label) for label in value.split("."))


def validate_dns_label(value: str) -> None:
    """The name of a namespace."""
    if not DNS_LABEL.fullmatch(value):
        raise ValidationError(
            f"“{value}” is no namespace: use lower-case letters, digits and “-”, at most 63, such as “weir”."
        )


def validate_dns_name(value: str) -> None:
    """The name of an object in Kubernetes."""
    if not is_dns_name(value):
        raise ValidationError(
            f"“{value}” is no name in Kubernetes: use lower-case letters, digits, “-” and “.”, such as “chat-large”."
        )


def validate_model_name(value: str) -> None:
    """What clients ask for may carry a vendor and capitals, such as `meta-llama/Llama-3.1-8B`."""
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._:/-]*[A-Za-z0-9])?", value):
        raise ValidationError(
            f"“{value}” is not a model name: use letters, digits and “. - _ : /”, such as “chat-large”."
        )


def validate_address(value: str) -> None:
    """`host:port`, as gateways read it."""
    try:
        parse_address(value)
    except ValueError as error:
        raise ValidationError(
            f"“{value}” is not an address: write host:port with a port from 1 to 65535, such as “10.0.0.7:8001”."
        ) from error


def validate_base_url(value: str) -> None:
    """The base URL of OpenAI's API."""
    try:
        parse_base_url(value, settings.CONFIG.backend_link_local)
    except ValueError as error:
        raise ValidationError(f"{error}.") from error


def validate_trusted_url(value: str) -> None:
    """Where gateways read what they trust: an issuer's public keys, or the verdict of a moderation."""
    try:
        check_trusted_url(value, settings.CONFIG.backend_link_local)
    except ValueError as error:
        raise ValidationError(f"{error}.") from error


def validate_metrics(value: str) -> None:
    """Where a server's Prometheus page is: its URL, or `host:port`, whose path is `/metrics`."""
    try:
        parse_url(value, settings.CONFIG.backend_link_local) if "//" in value else parse_address(value)
    except ValueError as error:
        raise ValidationError(f"{error}.") from error


def validate_tokenizer(value: str) -> None:
    """The name of a tokenizer. Which folders a gateway has is not known here: it reports a name that it has not."""
    if not is_name(value):
        known = ", ".join(f"“{name}”" for name in TOKENIZERS)
        raise ValidationError(
            f"“{value}” is not the name of a tokenizer: write {known}, or the name of a folder of the gateway's tokenizers."
        )


def validate_file_name(value: str) -> None:
    """The name of a secret or certificate, which the gateway has as a file."""
    if not is_name(value):
        raise ValidationError(
            f"“{value}” is not a name: use letters, digits, “.”, “-” and “_”, such as “hosted-api”. The secret itself is "
            "not entered here."
        )


def validate_headers(value: object) -> None:
    """Names of headers and their values, or the names of their secrets."""
    if not isinstance(value, dict) or not all(isinstance(entered, str) for entered in value.values()):
        raise ValidationError('Write an object of names and values, such as {"api-key": "secret:hosted-api"}.')
    for name, entered in value.items():
        text, secret = value_and_secret(entered)
        try:
            check_header(Header(name, text, secret))
        except ValueError as error:
            raise ValidationError(f"{error}.") from error
        if secret:
            validate_file_name(secret)


def validate_proxy(value: str) -> None:
    """The URL of an HTTP proxy."""
    try:
        parse_proxy(value)
    except ValueError as error:
        raise ValidationError(f"{error}.") from error


def validate_mapping(value: object) -> None:
    """Names and types of a model's tensors, as the snapshot has them."""
    try:
        check_mapping(msgspec.convert(value, TensorMapping))
    except ValueError as error:  # msgspec's are ValueErrors too
        raise ValidationError(f"{error}.") from error


def validate_image_hosts(value: object) -> None:
    """A list of hosts, or of `*.` and a host."""
    if not isinstance(value, list) or not all(isinstance(each, str) and is_host(each) for each in value):
        raise ValidationError(
            'Write a list of hosts in lower case, without scheme and port, such as ["images.example.com", "*.cdn.example.com"].'
        )


def validate_cache_ttls(value: object) -> None:
    """Seconds by operation, and by `tag:` and a tag."""
    if not isinstance(value, dict) or len(value) > MAX_TTLS or not all(map(_is_ttl, value.items())):
        raise ValidationError(
            f"Write at most {MAX_TTLS} seconds, 1 or more, each of an operation ({', '.join(sorted(OPERATIONS))}) or of a tag, such as "
            '{"embeddings": 604800, "tag:weather": 30}.'
        )


def _is_ttl(item: tuple[str, object]) -> bool:
    name, seconds = item
    known = name in OPERATIONS or (name.startswith("tag:") and NAME.fullmatch(name.removeprefix("tag:")) is not None)
    return known and type(seconds) is int and 1 <= seconds <= MAX_TTL_S


def validate_host(value: str) -> None:
    """A host's name."""
    try:
        parse_address(f"{value}:1")
    except ValueError as error:
        raise ValidationError(
            f"“{value}” is not a host's name: write it without scheme and port, such as “models.example.com”."
        ) from error

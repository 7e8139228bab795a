"""Checks names and addresses in forms. Messages name the value and the remedy."""

import re

from django.core.exceptions import ValidationError

from inference.core.address import parse_address
from inference.core.snapshot import TOKENIZERS

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")


def validate_name(value: str) -> None:
    """Names are used as span attributes, metric labels and URL parameters. This spelling is valid in all of them."""
    if not NAME.fullmatch(value):
        raise ValidationError(
            "“%(value)s” is not a name: use lower-case letters, digits, “.”, “-” and “_”, such as “chat-large”.",
            code="name",
            params={"value": value},
        )


def validate_model_name(value: str) -> None:
    """What clients ask for may carry a vendor and capitals, such as `meta-llama/Llama-3.1-8B`."""
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._:/-]*[A-Za-z0-9])?", value):
        raise ValidationError(
            "“%(value)s” is not a model name: use letters, digits and “. - _ : /”, such as “chat-large”.",
            code="model_name",
            params={"value": value},
        )


def validate_address(value: str) -> None:
    """`host:port`, as gateways read it."""
    try:
        parse_address(value)
    except ValueError as error:
        raise ValidationError(
            "“%(value)s” is not an address: write host:port with a port from 1 to 65535, such as “10.0.0.7:8001”.",
            code="address",
            params={"value": value},
        ) from error


def validate_tokenizer(value: str) -> None:
    """A tokenizer that gateways have. They refuse a model with any other."""
    if value not in TOKENIZERS:
        raise ValidationError(
            "“%(value)s” is not a tokenizer that the gateway carries: write %(known)s.",
            code="tokenizer",
            params={"value": value, "known": " or ".join(f"“{name}”" for name in TOKENIZERS)},
        )

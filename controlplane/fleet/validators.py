"""What names and addresses may look like. Messages name the value and the remedy; a form shows them at their field."""

import re

from django.core.exceptions import ValidationError

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):(?P<port>[0-9]{1,5})")
MAX_PORT = 65_535


def validate_name(value: str) -> None:
    """Names travel as span attributes, metric labels and URL parameters: one spelling fits all of them."""
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
    """`host:port`, the host a name, an IPv4 address, or an IPv6 address in brackets."""
    match = ADDRESS.fullmatch(value)
    if match is None or not 0 < int(match["port"]) <= MAX_PORT:
        raise ValidationError(
            "“%(value)s” is not an address: write host:port with a port from 1 to 65535, such as “10.0.0.7:8001”.",
            code="address",
            params={"value": value},
        )

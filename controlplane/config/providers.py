"""Providers of OpenID Connect, as WEIR_OIDC names them."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from controlplane.config import bounds


class Provider(BaseModel):
    """`id` is in URLs and in mappings of groups. `groups_from`: who says the groups. The userinfo endpoint does at most providers; at some
    the ID token alone, which then wants a refresh token to be read again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    name: str = Field(min_length=1, max_length=60)
    issuer: Annotated[str, AfterValidator(bounds.issuer)]
    client_id: str = Field(min_length=1)
    client_secret: str = Field("", repr=False)
    client_secret_file: Path | None = None
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    groups_from: Literal["userinfo", "id_token"] = "userinfo"
    login_origin: Annotated[str, AfterValidator(bounds.optional(bounds.server_url))] = ""

    @model_validator(mode="after")
    def _has_a_secret(self) -> Self:
        if bool(self.client_secret) == bool(self.client_secret_file):
            raise ValueError("give client_secret or client_secret_file")
        if self.client_secret_file and not self.client_secret_file.is_file():
            raise ValueError(f"client_secret_file={str(self.client_secret_file)!r} is no file")
        return self

    @property
    def secret(self) -> str:
        return self.client_secret_file.read_text().strip() if self.client_secret_file else self.client_secret

    @property
    def origin(self) -> str:
        """Where browsers are sent to log in."""
        return self.login_origin.rstrip("/") or "/".join(self.issuer.split("/")[:3])


def read(value: object) -> Any:
    """The list in the text of a variable. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else []
    except ValueError:
        raise ValueError("it is no JSON: use a list of objects, as docs/login.md shows") from None


def named_once(providers: list[Provider]) -> list[Provider]:
    if len({each.id for each in providers}) != len(providers):
        raise ValueError("two providers have one id")
    return providers

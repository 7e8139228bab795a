"""Providers that people log in through, as WEIR_OIDC and WEIR_SAML name them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from controlplane.config import bounds

ProviderUrl = Annotated[str, AfterValidator(bounds.provider_url)]


class AnyProvider(BaseModel):
    """`id` is in URLs and mappings of groups. `url`: where Weir itself asks it; `login_origin`: where browsers are sent, if elsewhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    LOGIN: ClassVar[str]
    """The name of the URL where a log-in begins."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    name: str = Field(min_length=1, max_length=60)
    login_origin: Annotated[str, AfterValidator(bounds.optional(bounds.server_url))] = ""

    @property
    def url(self) -> str:
        raise NotImplementedError

    @property
    def origin(self) -> str:
        """Where browsers are sent to log in."""
        return self.login_origin.rstrip("/") or "/".join(self.url.split("/")[:3])


class Provider(AnyProvider):
    """Of OpenID Connect. `groups_from`: who says the groups. The userinfo endpoint does at most providers; at some the ID token
    alone, which then wants a refresh token to be read again."""

    LOGIN = "openid_connect_login"

    issuer: ProviderUrl
    client_id: str = Field(min_length=1)
    client_secret: str = Field("", repr=False)
    client_secret_file: Path | None = None
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    groups_from: Literal["userinfo", "id_token"] = "userinfo"

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
    def url(self) -> str:
        return self.issuer


class SamlProvider(AnyProvider):
    """Of SAML 2.0. `entity_id` is Weir's own there. The files are read at each log-in: a new one counts at once. `begins_there`: answers
    to no request of Weir are taken too.
    """

    LOGIN = "saml_login"

    metadata_url: Annotated[str, AfterValidator(bounds.optional(bounds.provider_url))] = ""
    metadata_file: Path | None = None
    entity_id: str = Field("", max_length=1024)
    groups_attribute: str = Field("groups", min_length=1)
    certificate_file: Path | None = None
    key_file: Path | None = None
    begins_there: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if bool(self.metadata_url) == bool(self.metadata_file):
            raise ValueError("give metadata_url or metadata_file")
        if self.metadata_file and not self.login_origin:
            raise ValueError(
                "beside metadata_file give login_origin: where its log-in page is, such as https://login.example.com"
            )
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("give certificate_file and key_file, or neither")
        for path in (self.metadata_file, self.certificate_file, self.key_file):
            if path and not path.is_file():
                raise ValueError(f"{str(path)!r} is no file")
        return self

    @property
    def url(self) -> str:
        return self.metadata_url


def read(value: object) -> Any:
    """The list in the text of a variable. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else []
    except ValueError:
        raise ValueError("it is no JSON: use a list of objects, as docs/login.md shows") from None


def named_once(providers: Sequence[AnyProvider]) -> Sequence[AnyProvider]:
    if len({each.id for each in providers}) != len(providers):
        raise ValueError("two providers have one id")
    return providers

"""Reads what a provider of SAML 2.0 says of a person. python3-saml parses it and checks signatures; what that leaves open is refused here.

Nothing imports this unless WEIR_SAML names a provider.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import xmlsec
from allauth.socialaccount.adapter import get_adapter
from django.core.cache import cache
from django.http import HttpRequest
from django.urls import reverse
from lxml.etree import LxmlError
from onelogin.saml2.auth import OneLogin_Saml2_Auth
from onelogin.saml2.constants import OneLogin_Saml2_Constants as Names
from onelogin.saml2.errors import OneLogin_Saml2_Error
from onelogin.saml2.errors import OneLogin_Saml2_ValidationError as Wrong
from onelogin.saml2.idp_metadata_parser import OneLogin_Saml2_IdPMetadataParser
from onelogin.saml2.response import OneLogin_Saml2_Response
from onelogin.saml2.settings import OneLogin_Saml2_Settings
from onelogin.saml2.utils import OneLogin_Saml2_Utils as Utils
from onelogin.saml2.xml_utils import OneLogin_Saml2_XML as Xml

from controlplane.config.providers import SamlProvider

METADATA_FOR_S = 3600
MAX_METADATA_BYTES, MAX_ANSWER_CHARS = 2_000_000, 500_000
TRANSFORMS = {"http://www.w3.org/2000/09/xmldsig#enveloped-signature", "http://www.w3.org/2001/10/xml-exc-c14n#"}
"""All that a signature of SAML needs (SAML 2.0 core, section 5.4.4). Others are programs of whoever sent the answer."""
WHY = {
    Wrong.STATUS_CODE_IS_NOT_SUCCESS: "It says that the log-in failed there.",
    Wrong.NO_SIGNED_ASSERTION: "Its assertion is not signed. Have it sign assertions.",
    Wrong.NO_SIGNATURE_FOUND: "Its assertion is not signed. Have it sign assertions.",
    Wrong.INVALID_SIGNATURE: "Its signature does not hold: the answer was changed, or its metadata have another key.",
    Wrong.DEPRECATED_SIGNATURE_METHOD: "It signs with SHA-1. Have it sign with SHA-256.",
    Wrong.DEPRECATED_DIGEST_METHOD: "It signs with SHA-1. Have it sign with SHA-256.",
    Wrong.WRONG_ISSUER: "Another than its metadata names has issued the answer.",
    Wrong.WRONG_AUDIENCE: "Its answer is for another application.",
    Wrong.WRONG_DESTINATION: "Its answer is for another address.",
    Wrong.ASSERTION_TOO_EARLY: "Its answer is not valid yet: compare the clocks.",
    Wrong.ASSERTION_EXPIRED: "Its answer has expired.",
    Wrong.SESSION_EXPIRED: "Its answer has expired.",
    Wrong.WRONG_SUBJECTCONFIRMATION: "Its answer is for another address or another log-in, or has expired.",
}
UNREADABLE = "Its answer is no SAML response that Weir takes."


class RefusedError(Exception):
    """Permanent: nobody is logged in. The message is a plain sentence."""


class Weir(NamedTuple):
    """Weir's addresses as this provider knows them. `back`: where answers are sent."""

    metadata: str
    back: str


@dataclass(frozen=True, slots=True)
class Assertion:
    """What is signed, and of nobody's making but the provider's. `until` is Unix time, s. allauth calls the methods."""

    request_id: str
    name_id: str
    name_id_format: str
    attributes: dict[str, list[Any]]
    until: int | None

    def get_attributes(self) -> dict[str, list[Any]]:
        return self.attributes

    def get_nameid(self) -> str:
        return self.name_id

    def get_nameid_format(self) -> str:
        return self.name_id_format


def weir_of(request: HttpRequest, provider: SamlProvider) -> Weir:
    names = ("saml_metadata", "saml_acs")
    return Weir(*(request.build_absolute_uri(reverse(name, args=[provider.id])) for name in names))


def metadata(provider: SamlProvider, weir: Weir) -> str | bytes:
    """Weir's own, for the provider."""
    said: str | bytes = OneLogin_Saml2_Settings(_config(provider, weir), sp_validation_only=True).get_sp_metadata()
    return said


def request(provider: SamlProvider, weir: Weir) -> tuple[str, str]:
    """Where the browser is sent to log in, and the number of the request, which the answer has to name. Raises as `_known`."""
    auth = OneLogin_Saml2_Auth(_data(weir), _known(provider, weir))
    url: str = auth.login(return_to=provider.id)  # not empty: not everybody signs an empty one alike
    return url, str(auth.get_last_request_id())


def read(provider: SamlProvider, weir: Weir, answer: str) -> Assertion:
    """What the answer says, verified. Raises RefusedError, or as `_known`."""
    known = _known(provider, weir)
    try:
        if not 0 < len(answer) <= MAX_ANSWER_CHARS:
            raise RefusedError(UNREADABLE)
        _check_form(Xml.to_etree(Utils.b64decode(answer)))
        response = OneLogin_Saml2_Response(known, answer)
        response.is_valid(_data(weir), raise_exceptions=True)
        if known.get_sp_data()["entityId"] not in response.get_audiences():
            raise RefusedError(WHY[Wrong.WRONG_AUDIENCE])
        attributes = response.get_attributes()
        said = Assertion(
            _request_of(response, weir),
            response.get_nameid(),
            response.get_nameid_format() or "",
            {name: [each for each in attributes[name] if isinstance(each, str)] for name in attributes},
            response.get_session_not_on_or_after(),
        )
    except Wrong as error:
        raise RefusedError(WHY.get(error.code, UNREADABLE)) from error
    except (OneLogin_Saml2_Error, LxmlError, xmlsec.Error, ValueError) as error:  # no base64, no XML, a DTD
        raise RefusedError(UNREADABLE) from error
    if said.name_id_format == Names.NAMEID_TRANSIENT:
        raise RefusedError("It names people anew at each log-in. Have it send a persistent NameID.")
    return said


def _check_form(root: Any) -> None:
    """A signature covers one element of the same document, by steps that everybody uses, and nothing is encrypted: what strangers send
    fetches no file and no URL, and runs nothing. Raises RefusedError."""
    if isinstance(Xml.validate_xml(root, "saml-schema-protocol-2.0.xsd"), str):  # the name of what is wrong
        raise RefusedError(UNREADABLE)
    for signature in Xml.query(root, "//ds:Signature"):
        references = Xml.query(signature, ".//ds:Reference")
        steps = {step.get("Algorithm") for step in Xml.query(signature, ".//ds:Transform")}
        if len(references) != 1 or not references[0].get("URI", "").startswith("#") or steps - TRANSFORMS:
            raise RefusedError(UNREADABLE)
    if Xml.query(root, "//xenc:*"):
        raise RefusedError("Its assertion is encrypted. Have it sign assertions and not encrypt them.")


def _request_of(response: Any, weir: Weir) -> str:
    """The request that the signed assertion itself answers, at Weir's address, in time: python3-saml lets each of them be left out. Raises
    RefusedError."""
    for node in response._query_assertion("/saml:Subject/saml:SubjectConfirmation"):
        said = node.find("saml:SubjectConfirmationData", namespaces=Names.NSMAP)
        if node.get("Method") == Names.CM_BEARER and said is not None and said.get("Recipient") == weir.back:
            answered, end = said.get("InResponseTo"), said.get("NotOnOrAfter")
            if (
                answered
                and answered == response.get_in_response_to()
                and end
                and Utils.parse_SAML_to_time(end) > time.time()
            ):
                return str(answered)
    raise RefusedError(WHY[Wrong.WRONG_SUBJECTCONFIRMATION])


def _known(provider: SamlProvider, weir: Weir) -> Any:
    """Both sides, as python3-saml has them. Raises RefusedError where metadata are of no use, RequestException where they do not come."""
    text = provider.metadata_file.read_bytes() if provider.metadata_file else _fetched(provider.metadata_url)
    try:
        root = Xml.to_etree(text)
        if len(Xml.query(root, "//md:IDPSSODescriptor")) != 1:
            raise RefusedError("Its metadata are of no provider, or of several.")
        there = OneLogin_Saml2_IdPMetadataParser.parse(root)["idp"]
        return OneLogin_Saml2_Settings(_config(provider, weir, there))
    except (OneLogin_Saml2_Error, LxmlError, ValueError) as error:
        raise RefusedError("Its metadata, or Weir's certificate for it, cannot be used.") from error


def _fetched(url: str) -> bytes:
    known: bytes | None = cache.get(f"saml:{url}")
    if known is None:
        with (
            get_adapter().get_requests_session() as session,
            session.get(url, stream=True, allow_redirects=False) as answer,
        ):
            answer.raise_for_status()
            known = answer.raw.read(MAX_METADATA_BYTES, decode_content=True)
        cache.set(f"saml:{url}", known, METADATA_FOR_S)
    return known


def _data(weir: Weir) -> dict[str, Any]:
    """The request, as python3-saml wants it."""
    parts = urlsplit(weir.back)
    https = "on" if parts.scheme == "https" else "off"
    return {"https": https, "http_host": parts.netloc, "script_name": parts.path, "get_data": {}, "post_data": {}}


def _config(provider: SamlProvider, weir: Weir, there: dict[str, Any] | None = None) -> dict[str, Any]:
    certificate, key = (path.read_text() if path else "" for path in (provider.certificate_file, provider.key_file))
    return {
        "strict": True,
        "security": {
            "authnRequestsSigned": bool(key),
            "wantAssertionsSigned": True,
            "rejectDeprecatedAlgorithm": True,
            "requestedAuthnContext": False,
            "wantAttributeStatement": False,  # of somebody in no group
            "allowRepeatAttributeName": True,
            "allowSingleLabelDomains": True,
            "metadataValidUntil": "",
            "metadataCacheDuration": "",
        },
        "sp": {
            "entityId": provider.entity_id or weir.metadata,
            "assertionConsumerService": {"url": weir.back, "binding": Names.BINDING_HTTP_POST},
            "x509cert": certificate,
            "privateKey": key,
        },
        "idp": there or {},
    }

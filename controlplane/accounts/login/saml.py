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
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from lxml.etree import LxmlError
from onelogin.saml2.auth import OneLogin_Saml2_Auth
from onelogin.saml2.constants import OneLogin_Saml2_Constants as Names
from onelogin.saml2.errors import OneLogin_Saml2_Error
from onelogin.saml2.errors import OneLogin_Saml2_ValidationError as Wrong
from onelogin.saml2.idp_metadata_parser import OneLogin_Saml2_IdPMetadataParser
from onelogin.saml2.logout_request import OneLogin_Saml2_Logout_Request
from onelogin.saml2.response import OneLogin_Saml2_Response
from onelogin.saml2.settings import OneLogin_Saml2_Settings
from onelogin.saml2.utils import OneLogin_Saml2_Utils as Utils
from onelogin.saml2.xml_utils import OneLogin_Saml2_XML as Xml

from controlplane.config.providers import SamlProvider

METADATA_FOR_S = 3600
MAX_METADATA_BYTES, MAX_ANSWER_CHARS, MAX_LOG_OUT_CHARS = 2_000_000, 500_000, 8_000
"""A log-out comes compressed: in so many characters there are at most 6 MB."""
TRANSFORMS = {"http://www.w3.org/2000/09/xmldsig#enveloped-signature", "http://www.w3.org/2001/10/xml-exc-c14n#"}
"""All that a signature of SAML needs (SAML 2.0 core, section 5.4.4). Others are programs of whoever sent the answer."""
CIPHERS = {
    "http://www.w3.org/2009/xmlenc11#aes128-gcm",
    "http://www.w3.org/2009/xmlenc11#aes256-gcm",
    "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p",
}
"""Not CBC: what an answer is refused for would tell strangers what is in it (Jager and Somorovsky, 2011)."""
ENCRYPTED = {
    *(f"{{{Names.NS_XENC}}}{name}" for name in ("EncryptedData", "EncryptedKey", "EncryptionMethod", "CipherData", "CipherValue")),
    *(f"{{{Names.NS_DS}}}{name}" for name in ("KeyInfo", "DigestMethod", "X509Data", "X509Certificate")),
}  # fmt: skip
LOG_OUT_FOR_S, SEEN_FOR_S = 300, 86_400
NO_LOG_OUT = "It sent no log-out that Weir takes: have it sign log-outs by SHA-256, and name its address for them in its metadata."
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
    """Weir's addresses as this provider knows them. `back`: where answers are sent; `log_out`: where log-outs are."""

    metadata: str
    back: str
    log_out: str


@dataclass(frozen=True, slots=True)
class Assertion:
    """What is signed, and of nobody's making but the provider's. `request_id` is empty where it answers none. `until` is Unix time, s.
    allauth calls the methods.
    """

    id: str
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
    names = ("saml_metadata", "saml_acs", "saml_sls")
    return Weir(*(request.build_absolute_uri(reverse(name, args=[provider.id])) for name in names))


def metadata(provider: SamlProvider, weir: Weir) -> str | bytes:
    """Weir's own, for the provider."""
    said: str | bytes = OneLogin_Saml2_Settings(_config(provider, weir), sp_validation_only=True).get_sp_metadata()
    return said


def request(provider: SamlProvider, weir: Weir) -> tuple[str, str]:
    """Where the browser is sent to log in, and the number of the request, which the answer has to name. Raises as `_known`."""
    auth = OneLogin_Saml2_Auth(_data(weir.back), _known(provider, weir))
    url: str = auth.login(return_to=provider.id)  # not empty: not everybody signs an empty one alike
    return url, str(auth.get_last_request_id())


def read(provider: SamlProvider, weir: Weir, answer: str) -> Assertion:
    """What the answer says, verified. Raises RefusedError, or as `_known`."""
    known = _known(provider, weir)
    try:
        if not 0 < len(answer) <= MAX_ANSWER_CHARS:
            raise RefusedError(UNREADABLE)
        root = Xml.to_etree(Utils.b64decode(answer))
        if isinstance(Xml.validate_xml(root, "saml-schema-protocol-2.0.xsd"), str):  # the name of what is wrong
            raise RefusedError(UNREADABLE)
        (_check_encryption if provider.key_file else _check_form)(root)
        response = OneLogin_Saml2_Response(known, answer)
        if provider.key_file:
            _check_form(response.decrypted_document if response.encrypted else root)
        response.is_valid(_data(weir.back), raise_exceptions=True)
        if known.get_sp_data()["entityId"] not in response.get_audiences():
            raise RefusedError(WHY[Wrong.WRONG_AUDIENCE])
        attributes = response.get_attributes()
        said = Assertion(
            response.get_assertion_id(),
            _request_of(response, weir, provider),
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
    for signature in Xml.query(root, "//ds:Signature"):
        references = Xml.query(signature, ".//ds:Reference")
        steps = {step.get("Algorithm") for step in Xml.query(signature, ".//ds:Transform")}
        if len(references) != 1 or not references[0].get("URI", "").startswith("#") or steps - TRANSFORMS:
            raise RefusedError(UNREADABLE)
    if Xml.query(root, "//xenc:*"):
        raise RefusedError("It encrypts. Have it sign assertions and not encrypt them, or give Weir a certificate.")


def _check_encryption(root: Any) -> None:
    """As `_check_form`: what is encrypted is in the document itself, by ciphers that show when they were changed. Raises RefusedError."""
    inside = Xml.query(root, "//xenc:EncryptedData | //xenc:EncryptedData//*")
    ciphers = {each.get("Algorithm") for each in inside if each.tag == f"{{{Names.NS_XENC}}}EncryptionMethod"}
    if ciphers - CIPHERS or {str(each.tag) for each in inside} - ENCRYPTED:
        raise RefusedError("It encrypts otherwise than by AES-GCM and RSA-OAEP.")


def _request_of(response: Any, weir: Weir, provider: SamlProvider) -> str:
    """The request that the signed assertion itself answers, at Weir's address, in time: python3-saml lets each of them be left out. Empty:
    none, where the provider may begin. Raises RefusedError."""
    for node in response._query_assertion("/saml:Subject/saml:SubjectConfirmation"):
        said = node.find("saml:SubjectConfirmationData", namespaces=Names.NSMAP)
        if node.get("Method") == Names.CM_BEARER and said is not None and said.get("Recipient") == weir.back:
            answered, end = said.get("InResponseTo"), said.get("NotOnOrAfter")
            left_s = Utils.parse_SAML_to_time(end) - time.time() if end else 0.0
            may_be = bool(answered) or (provider.begins_there and left_s < SEEN_FOR_S)
            if may_be and answered == response.get_in_response_to() and left_s > 0:
                return str(answered or "")
    raise RefusedError(WHY[Wrong.WRONG_SUBJECTCONFIRMATION])


def log_out(provider: SamlProvider, weir: Weir, query: QueryDict) -> tuple[str, str]:
    """Whom a signed log-out of the provider names, and where the browser goes then. Raises as `read`."""
    auth = OneLogin_Saml2_Auth({**_data(weir.log_out), "get_data": query}, _known(provider, weir, signed=True))
    try:
        if not 0 < len(query.get("SAMLRequest", "")) <= MAX_LOG_OUT_CHARS or not auth.get_slo_response_url():
            raise RefusedError(NO_LOG_OUT)
        where: str = auth.process_slo(keep_local_session=True)
        if auth.get_errors():
            raise RefusedError(NO_LOG_OUT)
        root = Xml.to_etree(auth.get_last_request_xml())
        if abs(time.time() - Utils.parse_SAML_to_time(root.get("IssueInstant"))) > LOG_OUT_FOR_S:
            raise RefusedError(NO_LOG_OUT)
        return OneLogin_Saml2_Logout_Request.get_nameid(root), where
    except (OneLogin_Saml2_Error, LxmlError, xmlsec.Error, ValueError, TypeError) as error:
        raise RefusedError(NO_LOG_OUT) from error


def _known(provider: SamlProvider, weir: Weir, *, signed: bool = False) -> Any:
    """Both sides, as python3-saml has them. Raises RefusedError where metadata are of no use, RequestException where they do not come."""
    text = provider.metadata_file.read_bytes() if provider.metadata_file else _fetched(provider.metadata_url)
    try:
        root = Xml.to_etree(text)
        if len(Xml.query(root, "//md:IDPSSODescriptor")) != 1:
            raise RefusedError("Its metadata are of no provider, or of several.")
        there = OneLogin_Saml2_IdPMetadataParser.parse(root)["idp"]
        return OneLogin_Saml2_Settings(_config(provider, weir, there, signed=signed))
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


def _data(at: str) -> dict[str, Any]:
    """The request to this address, as python3-saml wants it."""
    parts = urlsplit(at)
    https = "on" if parts.scheme == "https" else "off"
    return {"https": https, "http_host": parts.netloc, "script_name": parts.path, "get_data": {}, "post_data": {}}


def _config(
    provider: SamlProvider, weir: Weir, there: dict[str, Any] | None = None, *, signed: bool = False
) -> dict[str, Any]:
    """`signed`: as whole messages, and not assertions alone."""
    certificate, key = (path.read_text() if path else "" for path in (provider.certificate_file, provider.key_file))
    return {
        "strict": True,
        "security": {
            "authnRequestsSigned": bool(key),
            "logoutResponseSigned": bool(key),
            "wantMessagesSigned": signed,
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
            "singleLogoutService": {"url": weir.log_out, "binding": Names.BINDING_HTTP_REDIRECT},
            "x509cert": certificate,
            "privateKey": key,
        },
        "idp": there or {},
    }

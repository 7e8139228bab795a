"""Log-in through a real provider of SAML 2.0: groups become roles, and what it did not sign for this log-in lets nobody in."""

import base64
import copy
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from lxml import etree
from pydantic import ValidationError
from pytest_django import Settings

from controlplane.accounts.models import GroupMapping, ProviderAccount, ProviderTokens
from controlplane.audit import middleware as audit
from controlplane.audit.models import Entry
from controlplane.config import Config
from controlplane.fleet.models import Team
from deploy.local.ports import free_port
from tests.support.certificates import certificate
from tests.support.saml import SamlProvider, use
from tests.support.start import Start

pytestmark = [pytest.mark.django_db, pytest.mark.processes]
NAMES = {
    "p": "urn:oasis:names:tc:SAML:2.0:protocol",
    "a": "urn:oasis:names:tc:SAML:2.0:assertion",
    "s": "http://www.w3.org/2000/09/xmldsig#",
}
EXC_C14N = b"http://www.w3.org/2001/10/xml-exc-c14n#"
BACK = "http://testserver/login/saml/okta/back"
SHA1 = {"signatureAlgorithm": "rsa-sha1", "digestAlgorithm": "sha1"}
UNREADABLE, UNSIGNED, CHANGED, ELSEWHERE = (
    "no SAML response that Weir takes",
    "is not signed",
    "does not hold",
    "another address or another log-in",
)


@pytest.fixture(scope="module")
def running(start_once: Start, tmp_path_factory: pytest.TempPathFactory) -> SamlProvider:
    return SamlProvider(free_port(), tmp_path_factory.mktemp("saml")).start(start_once)


@pytest.fixture
def okta(running: SamlProvider, settings: Settings) -> Iterator[SamlProvider]:
    audit._recent.clear()
    running.knows(vera=["llm-owners", "staff"])
    running.answers_otherwise()
    use(settings, running.settings())
    serving = Team.objects.create(name="serving")
    for group, role in (("llm-owners", "owner"), ("staff", "viewer")):
        GroupMapping.objects.create(provider="okta", group=group, role=role, team=serving)
    yield running
    cache.clear()


def answer_for(okta: SamlProvider, client: Client, name: str = "vera", to: str = "/silences") -> str:
    """To the provider as a browser would, and what it answers."""
    okta.has_present(name)
    return okta.answer_in(requests.get(client.post("/login/saml/okta", {"next": to})["Location"], timeout=10).text)


def ends_at(client: Client, answer: str) -> str:
    """Where an answer leads, or why nowhere."""
    said = client.post("/login/saml/okta/back", {"SAMLResponse": answer})
    if said.status_code == 302:
        assert said["Location"] == "/login/saml/okta/done"
        said = client.get(said["Location"])
    return said["Location"] if said.status_code == 302 else f"{said.status_code} {said.content.decode()}"


def is_refused(client: Client, answer: str, why: str) -> None:
    """Said plainly, written down once, and nobody is logged in."""
    at = ends_at(client, answer)
    assert at.startswith("401 ") and why in at
    entry = Entry.objects.get(action="refused")
    assert entry.via == "provider okta" and why in entry.note
    assert not User.objects.exists() and client.get("/silences")["Location"].startswith("/login?next=")


def log_in(okta: SamlProvider, name: str = "vera", to: str = "/silences") -> tuple[Client, str]:
    client = Client()
    return client, ends_at(client, answer_for(okta, client, name, to))


def may_silence(client: Client) -> bool:
    return client.post("/silences", {"owner": "serving", "length": "1h", "reason": "test"}).status_code == 302


def test_groups_are_roles_and_the_next_log_in_takes_away_what_is_gone(okta: SamlProvider) -> None:
    client, at = log_in(okta)
    assert at == "/silences" and may_silence(client)
    vera = User.objects.get(username="vera")
    assert not vera.has_usable_password() and not vera.memberships.exists()
    assert Entry.objects.filter(action="logged in", who="vera").count() == 1
    okta.knows(vera=["staff"])
    assert may_silence(client), "it cannot be asked between"
    again, at = log_in(okta, to="https://evil.example/")
    assert at == "/" and again.get("/silences").status_code == 200
    assert not may_silence(again) and not may_silence(client) and User.objects.count() == 1
    okta.knows(vera=[])
    nobody, _ = log_in(okta)
    assert nobody.get("/silences").status_code == 403


def test_its_word_ends_and_so_does_what_rests_on_it(okta: SamlProvider, settings: Settings) -> None:
    client, _ = log_in(okta)
    ProviderTokens.objects.update(read_at=timezone.now() - timedelta(seconds=settings.CONFIG.oidc_outage_s - 60))
    assert client.get("/silences").status_code == 200
    ProviderTokens.objects.update(read_at=timezone.now() - timedelta(seconds=settings.CONFIG.oidc_outage_s + 1))
    assert client.get("/silences")["Location"].startswith("/login?next=")


def test_a_name_that_is_taken_is_not_entered(okta: SamlProvider) -> None:
    User.objects.create_superuser("vera", email="vera@example.com")
    okta.answers_otherwise(claims={"urn:oid:0.9.2342.19200300.100.1.3": "vera@example.com"})
    client, _ = log_in(okta)
    assert client.get("/audit").status_code == 403 and ProviderAccount.objects.get().user.username != "vera"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"signAssertion": False}, UNSIGNED),
        ({"signAssertion": False, "signResponse": True}, UNSIGNED),
        (SHA1, "SHA-1"),
        ({"issuer": "https://other.example"}, "Another than its metadata names"),
        ({"audience": "https://other.example"}, "another application"),
        ({"audience": ""}, "another application"),
        ({"destination": "https://other.example/back"}, "another address"),
        ({"recipient": "https://other.example/back"}, ELSEWHERE),
        ({"recipient": f"{BACK}/x"}, ELSEWHERE),
        ({"recipient": ""}, ELSEWHERE),
        ({"inResponseTo": ""}, ELSEWHERE),
        ({"inResponseTo": "ONELOGIN_1"}, "did not begin that log-in"),
        ({"lifetimeInSeconds": -600}, "has expired"),
        ({"format": "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"}, "people anew at each log-in"),
        ({"samlStatusCode": "urn:oasis:names:tc:SAML:2.0:status:Responder"}, "failed there"),
    ],
)  # fmt: skip
def test_what_the_provider_itself_gets_wrong_is_refused(okta: SamlProvider, wrong: dict[str, Any], why: str) -> None:
    okta.answers_otherwise(**wrong)
    client = Client()
    is_refused(client, answer_for(okta, client), why)


def changed(change: Callable[[Any], Any]) -> Callable[[bytes], bytes]:
    """The change of a tree as one of its text. It returns the tree, or nothing for the same one."""

    def of_text(text: bytes) -> bytes:
        root = etree.fromstring(text)
        said = change(root)
        return etree.tostring(root if said is None else said)

    return of_text


def forged(assertion: Any, sign: bool = False) -> Any:
    """A copy in another's name."""
    copied = copy.deepcopy(assertion)
    copied.set("ID", "_forged")
    copied.find(".//a:NameID", NAMES).text = "admin"
    if not sign:
        copied.remove(copied.find("s:Signature", NAMES))
    return copied


def other_request(root: Any) -> None:
    root.set("InResponseTo", "ONELOGIN_1")


def wrapped_before(root: Any) -> None:
    root.insert(0, forged(root.find("a:Assertion", NAMES)))


def wrapped_with_the_same_number(root: Any) -> None:
    """The signed one is kept where a reader does not look."""
    signed = root.find("a:Assertion", NAMES)
    evil = forged(signed, sign=True)
    evil.set("ID", signed.get("ID"))
    evil.find("s:Signature", NAMES).append(etree.Element(f"{{{NAMES['s']}}}Object"))
    root.replace(signed, evil)
    evil.find("s:Signature/s:Object", NAMES).append(signed)


def wrapped_in_extensions(root: Any) -> None:
    signed = root.find("a:Assertion", NAMES)
    root.replace(signed, forged(signed))
    etree.SubElement(root, f"{{{NAMES['p']}}}Extensions").append(signed)


def inside_another(root: Any) -> None:
    """The signed one as advice of the forged one."""
    signed = root.find("a:Assertion", NAMES)
    evil = forged(signed)
    root.replace(signed, evil)
    etree.SubElement(evil, f"{{{NAMES['a']}}}Advice").append(signed)


def second_reference(root: Any) -> None:
    info = root.find(".//s:SignedInfo", NAMES)
    more = copy.deepcopy(info.find("s:Reference", NAMES))
    more.set("URI", "file:///dev/zero")
    info.append(more)


def with_entities(text: bytes) -> bytes:
    bombs = b"".join(b'<!ENTITY l%d "%s">' % (at, b"&l%d;" % (at - 1) * 10) for at in range(1, 10))
    return b'<!DOCTYPE r [<!ENTITY l0 "ha">' + bombs + b"]>" + text.replace(b">vera<", b">&l9;<")


def swapped(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def of_text(text: bytes) -> bytes:
        assert old in text
        return text.replace(old, new)

    return of_text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (swapped(b">vera<", b">admin<"), CHANGED),
        (swapped(b">staff<", b">llm-admins<"), CHANGED),
        (changed(other_request), ELSEWHERE),
        (changed(wrapped_before), UNREADABLE),
        (changed(wrapped_with_the_same_number), UNREADABLE),
        (changed(wrapped_in_extensions), UNREADABLE),
        (changed(inside_another), UNREADABLE),
        (changed(second_reference), UNREADABLE),
        (swapped(EXC_C14N + b'"/></', b'http://www.w3.org/TR/1999/REC-xpath-19991116"/></'), UNREADABLE),
        (with_entities, UNREADABLE),
        (lambda text: b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + text.replace(b">vera<", b">&x;<"), UNREADABLE),
        (lambda text: b'<!DOCTYPE r SYSTEM "http://127.0.0.1:1/evil.dtd">' + text, UNREADABLE),
        (lambda text: text[:-9], UNREADABLE),
        (lambda text: text + b" " * 400_000, UNREADABLE),
        (lambda text: b"", UNREADABLE),
    ],
)  # fmt: skip
def test_what_is_changed_on_the_way_is_refused(okta: SamlProvider, change: Callable[[bytes], bytes], why: str) -> None:
    client = Client()
    text = base64.b64decode(answer_for(okta, client))
    is_refused(client, base64.b64encode(change(text)).decode(), why)


def test_an_answer_is_taken_once_and_by_the_browser_that_began(okta: SamlProvider) -> None:
    client, other = Client(), Client()
    answer = answer_for(okta, client)
    answer_for(okta, other)
    is_refused(other, answer, "did not begin that log-in")
    assert ends_at(client, answer) == "/silences"
    client.post("/logout")
    assert "did not begin that log-in" in ends_at(client, answer), "a replay"
    assert client.get("/silences").status_code == 302
    assert ends_at(client, "").startswith("401 "), "unsolicited"
    assert client.get("/login/saml/okta/done").status_code == 401


def test_a_log_in_that_begins_there_is_taken_once_where_that_is_chosen(okta: SamlProvider, settings: Settings) -> None:
    okta.has_present("vera")
    okta.answers_otherwise(begins={"audience": "http://testserver/login/saml/okta/metadata", "to": BACK})
    answer = okta.answer_in(requests.get(f"{okta.url}/begin", timeout=10).text)
    is_refused(Client(), answer, ELSEWHERE)
    use(settings, okta.settings(begins_there=True))
    client = Client()
    assert ends_at(client, answer) == "/" and client.get("/silences").status_code == 200
    assert "did not begin that log-in" in ends_at(Client(), answer), "a replay"
    okta.answers_otherwise()
    assert log_in(okta)[1] == "/silences"
    assert "did not begin that log-in" in ends_at(Client(), answer_for(okta, Client())), (
        "what was begun here stays with its browser"
    )


def test_a_signed_log_out_of_the_provider_ends_all_sessions_of_the_person(okta: SamlProvider) -> None:
    client, other = log_in(okta)[0], Client()
    address = okta.log_out_of("vera")
    for bad in (
        re.sub("Signature=[^&]+", "Signature=AAAA", address),
        address.partition("&SigAlg")[0].partition("&Signature")[0],
        re.sub("SAMLRequest=[^&]+", "SAMLRequest=AAAA", address),
        "/login/saml/okta/log-out",
        f"/login/saml/okta/log-out?SAMLRequest={'A' * 8001}",
        okta.log_out_of("vera", **SHA1),
    ):
        assert other.get(bad).status_code == 401 and client.get("/silences").status_code == 200
    there = other.get(address)  # without the cookie, as of another browser
    assert there["Location"].startswith(f"{okta.url}/logout?SAMLResponse=")
    assert client.get("/silences")["Location"].startswith("/login?next=")
    later = timezone.now() + timedelta(minutes=10)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("controlplane.accounts.login.saml.time.time", later.timestamp)
        assert other.get(address).status_code == 401, "an address out of a browser's history"


def test_a_comment_does_not_cut_a_name_in_two(okta: SamlProvider) -> None:
    """Signatures do not cover comments."""
    client = Client()
    text = base64.b64decode(answer_for(okta, client)).replace(b">vera<", b">ve<!---->ra<")
    assert ends_at(client, base64.b64encode(text).decode()) == "/silences"
    assert ProviderAccount.objects.get().subject == "vera"


def test_an_address_that_sends_many_answers_has_to_wait(okta: SamlProvider) -> None:
    client = Client()
    assert [client.post("/login/saml/okta/back").status_code for _ in range(31)] == [401] * 30 + [429]


def test_a_log_in_ends_no_later_than_at_the_provider(okta: SamlProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """`samlp` says no SessionNotOnOrAfter."""
    from controlplane.accounts.login import saml

    soon = int(time.time()) + 100
    read = saml.read
    monkeypatch.setattr(saml, "read", lambda *given: replace(read(*given), until=soon))
    client, _ = log_in(okta)
    assert client.session.get_expiry_age() <= 100


def test_weirs_metadata_name_its_address_and_its_certificate_signs_requests(
    okta: SamlProvider, settings: Settings, tmp_path: Path
) -> None:
    assert Client().get("/login/saml/other/metadata").status_code == 302
    own = certificate("weir", is_rsa=True)
    files = {
        "certificate_file": tmp_path / "weir.pem",
        "key_file": tmp_path / "weir.key",
        "metadata_file": tmp_path / "okta.xml",
    }
    for path, text in zip(files.values(), (own.chain, own.key, okta.metadata()), strict=True):
        path.write_bytes(text)
    use(settings, okta.settings(**files, metadata_url="", login_origin=okta.url, entity_id="urn:weir"))
    said = Client().get("/login/saml/okta/metadata").content
    assert b'entityID="urn:weir"' in said and BACK.encode() in said and b'WantAssertionsSigned="true"' in said
    assert b'AuthnRequestsSigned="true"' in said and b"X509Certificate" in said and b"validUntil" not in said
    (okta.folder / "weir.pem").write_bytes(own.chain)
    try:
        assert log_in(okta)[1] == "/silences"
        public = load_pem_x509_certificate(own.chain).public_key()
        text = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        encrypted = {"encryptionCert": own.chain.decode(), "encryptionPublicKey": text}
        okta.answers_otherwise(**encrypted)
        assert log_in(okta)[1] == "/silences"
        client = Client()
        text = base64.b64decode(answer_for(okta, client))
        for change in (
            (b"2009/xmlenc11#aes256-gcm", b"2001/04/xmlenc#aes256-cbc"),
            (b"CipherValue", b"CipherReference"),
        ):
            assert change[0] in text
            at = ends_at(client, base64.b64encode(text.replace(*change)).decode())
            assert "otherwise than by AES-GCM and RSA-OAEP" in at or UNREADABLE in at
        okta.answers_otherwise(**encrypted, **SHA1)
        assert "signs with SHA-1" in log_in(okta)[1], "what is inside is looked at as what is not encrypted"
    finally:
        (okta.folder / "weir.pem").unlink()
    files["metadata_file"].write_bytes(okta.metadata().replace(b"IDPSSODescriptor", b"SPSSODescriptor"))
    assert b"of no provider" in Client().post("/login/saml/okta").content


def test_a_provider_that_is_down_is_said_to_be(okta: SamlProvider, settings: Settings) -> None:
    use(settings, okta.settings(metadata_url=f"http://127.0.0.1:{free_port()}/metadata"))
    answer = Client().post("/login/saml/okta")
    assert answer.status_code == 401 and b"did not answer" in answer.content
    assert Client().get("/login/saml/okta").status_code == 405
    assert Client().post("/login/saml/other").status_code == 302, "as any page that is not there"


@pytest.mark.parametrize(
    ("wrong", "because"),
    [
        ({"metadata_url": "http://login.example.com"}, "https"),
        ({"metadata_url": ""}, "metadata_url or metadata_file"),
        ({"metadata_url": "", "metadata_file": __file__}, "login_origin"),
        ({"key_file": __file__}, "certificate_file and key_file"),
        ({"key_file": __file__, "certificate_file": "/nowhere"}, "no file"),
        ({"id": "npm"}, "one id"),
    ],
)
def test_settings_of_a_provider_are_checked(wrong: dict[str, str], because: str) -> None:
    okta = SamlProvider(1, Path())
    oidc = [{"id": "npm", "name": "npm", "issuer": "https://npm.example", "client_id": "weir", "client_secret": "x"}]
    with pytest.raises(ValidationError, match=because) as refused:
        Config(oidc=json.dumps(oidc), saml=json.dumps([okta.settings(**wrong)]))  # type: ignore[arg-type]
    assert refused.value.error_count() == 1

"""Log-in in a browser: an app, recovery codes and a passkey, with an authenticator that the browser plays; and through a provider."""

import base64
import hmac
import struct
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.console import leave_picture
from tests.support.browser.pages import linked
from tests.support.browser.site import Site
from tests.support.start import Start

PERSON = """
from tests.support.web.people import member
person = member("petra", "responder")
person.set_password("slow-river-under-bridge")
person.save()
"""
MAPPING = """
from controlplane.accounts.models import GroupMapping
from controlplane.fleet.models import Team
team, _ = Team.objects.get_or_create(name="serving")
GroupMapping.objects.get_or_create(provider="npm", group="llm-on-call", role="responder", team=team)
"""
STEP_S = 30


@pytest.fixture
def tab(browser: Browser, site: Site) -> Iterator[Page]:
    """Of nobody, at a name: passkeys belong to names, and to no address."""
    context = browser.new_context(
        base_url=site.url.replace("127.0.0.1", "localhost"), viewport={"width": 1440, "height": 900}
    )
    context.set_default_timeout(30_000)
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    key = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
    }
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": key})
    yield page
    context.close()


def code_of(secret: str, ahead: int = 0) -> str:
    """RFC 6238: the code of the app now, or so many steps ahead."""
    counter = struct.pack(">Q", int(time.time()) // STEP_S + ahead)
    digest = hmac.digest(base64.b32decode(secret), counter, "sha1")
    return f"{(struct.unpack('>I', digest[digest[-1] & 15 :][:4])[0] & 0x7FFFFFFF) % 10**6:06d}"


def log_in(page: Page) -> None:
    page.goto("/login?next=/account")
    page.get_by_label("Username").fill("petra")
    page.get_by_label("Password").fill("slow-river-under-bridge")
    page.get_by_role("button", name="Log in", exact=True).click()


def log_out(page: Page) -> None:
    page.locator("summary", has_text="petra").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")


def test_an_app_a_recovery_code_and_a_passkey_let_in_and_the_password_alone_no_more(tab: Page, site: Site) -> None:
    site.shell(PERSON)
    log_in(tab)
    expect(tab.get_by_text("You have none: whoever has your password is you")).to_be_visible()
    leave_picture(tab, "login-account", full_page=True)

    tab.get_by_role("link", name="Add one").first.click()
    leave_picture(tab, "login-confirm", full_page=True)
    tab.get_by_label("Password").fill("slow-river-under-bridge")
    tab.get_by_role("button", name="Confirm").click()
    secret = tab.locator("main code").inner_text()
    leave_picture(tab, "login-app", full_page=True)
    tab.get_by_label("Code").fill(code_of(secret))
    tab.get_by_role("button", name="Use this app").click()
    recovery = tab.locator(".recovery code").first.inner_text()
    leave_picture(tab, "login-codes", full_page=True)
    log_out(tab)

    log_in(tab)
    tab.wait_for_url("**/login/second-factor")
    leave_picture(tab, "login-second-factor", full_page=True)
    tab.get_by_label("Code").fill("000000")
    tab.get_by_role("button", name="Log in", exact=True).click()
    expect(tab.get_by_text("Incorrect code")).to_be_visible()
    tab.goto("/account")
    assert "/login" in tab.url  # the password alone does not let in
    tab.goto("/login/second-factor")
    tab.get_by_label("Code").fill(code_of(secret, ahead=1))  # that of now was used
    tab.get_by_role("button", name="Log in", exact=True).click()
    tab.wait_for_url("**/account")
    log_out(tab)

    log_in(tab)
    tab.get_by_label("Code").fill(recovery)
    tab.get_by_role("button", name="Log in", exact=True).click()
    tab.wait_for_url("**/account")
    expect(tab.get_by_text("Recovery codes: 9 left")).to_be_visible()

    tab.locator("li", has_text="Passkeys: none").get_by_role("link").click()
    tab.get_by_label("Password").fill("slow-river-under-bridge")
    tab.get_by_role("button", name="Confirm").click()
    tab.get_by_label("Its name").fill("laptop")
    leave_picture(tab, "login-passkey", full_page=True)
    tab.get_by_role("button", name="Add it").click()
    expect(tab.get_by_text("Passkey laptop")).to_be_visible()
    leave_picture(tab, "login-account-with-factors", full_page=True)
    tab.get_by_role("link", name="Sessions").click()
    leave_picture(tab, "login-sessions", full_page=True)
    log_out(tab)

    tab.get_by_role("button", name="Log in with a passkey").click()
    expect(tab.locator("summary", has_text="petra")).to_be_visible()


def test_groups_of_a_provider_are_roles_and_removal_takes_them_away_at_the_next_request(
    tab: Page, site: Site, start: Start
) -> None:
    site.shell(MAPPING)
    provider = site.oidc.start(start, site.url.replace("127.0.0.1", "localhost"))
    provider.knows(vera=["llm-on-call"])
    provider.has_present("vera")
    tab.goto("/login?next=/silences")
    leave_picture(tab, "login-through", full_page=True)
    tab.get_by_role("button", name="Log in through npm").click()
    tab.wait_for_url("**/silences")
    expect(tab.get_by_role("button", name="Silence", exact=True)).to_be_visible()
    tab.goto("/account")
    expect(tab.get_by_text("you log in through a provider")).to_be_visible()
    provider.knows(vera=[])
    tab.goto("/silences")
    expect(tab.get_by_role("heading", name="Not allowed")).to_be_visible()
    leave_picture(tab, "login-without-a-role", full_page=True)
    provider.knows()
    tab.goto("/silences")
    tab.wait_for_url("**/login?next=/silences")


def test_an_answer_that_another_sites_page_sends_logs_in(tab: Page, site: Site, start: Start) -> None:
    """SAML's come so: without the session's cookie, and the log-in goes on with it all the same."""
    site.shell(MAPPING.replace("npm", "okta"))
    provider = site.saml.start(start)
    provider.knows(vera=["llm-on-call"])
    provider.has_present("vera")
    tab.goto("/login?next=/silences")
    tab.get_by_role("button", name="Log in through Okta").click()
    tab.wait_for_url("**/silences")
    expect(tab.get_by_role("button", name="Silence", exact=True)).to_be_visible()
    tab.goto("/login/saml/okta/done")
    expect(tab.get_by_text("did not begin that log-in")).to_be_visible()
    leave_picture(tab, "login-no-log-in", full_page=True)


def test_an_open_page_of_a_session_that_has_ended_asks_for_a_log_in(tab: Page, site: Site) -> None:
    """And is not called live any more. Another session lasts: other tests share it."""
    tab.goto("/latency?q=p99")
    tab.get_by_label("Username").fill("admin")
    tab.get_by_label("Password").fill(site.password)
    tab.get_by_role("button", name="Log in", exact=True).click()
    tab.wait_for_url("**/latency?q=p99")
    linked(tab)
    site.arrive(20, over_s=2.0, seed=1)
    expect(tab.locator("[data-renewed]")).to_be_attached()
    [key] = [each["value"] for each in tab.context.cookies() if each["name"].startswith("weir_session")]
    site.shell(f"from django.contrib.sessions.models import Session; Session.objects.get(session_key={key!r}).delete()")
    site.arrive(20, over_s=2.0, seed=2)
    expect(tab.get_by_label("Username")).to_be_visible()
    assert "/login" in tab.url and "latency" in tab.url

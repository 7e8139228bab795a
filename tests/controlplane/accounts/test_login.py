import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

PASSWORD = "slow-river-under-bridge"


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_superuser("olga", password=PASSWORD)


def log_in(client: Client, password: str, **extra: str) -> int:
    return client.post("/login", {"username": "olga", "password": password, "next": "/admin/"}, **extra).status_code  # type: ignore[arg-type]


def test_the_right_password_leads_to_the_page_that_was_asked_for(outsider: Client, olga: User) -> None:
    response = outsider.post("/login", {"username": "olga", "password": PASSWORD, "next": "/admin/"})
    assert (response.status_code, response["Location"]) == (302, "/admin/")
    assert outsider.get("/admin/").status_code == 200


def test_login_never_leads_to_another_host(outsider: Client, olga: User) -> None:
    response = outsider.post("/login", {"username": "olga", "password": PASSWORD, "next": "https://evil.example/"})
    assert response["Location"] == "/"


def test_a_wrong_password_stays_on_the_login_page(outsider: Client, olga: User) -> None:
    assert log_in(outsider, "guess") == 200
    assert outsider.get("/admin/").status_code == 302


def test_guessing_is_locked_out_even_with_the_right_password(outsider: Client, olga: User, settings: Settings) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT):
        log_in(outsider, "guess")
    response = outsider.post("/login", {"username": "olga", "password": PASSWORD})
    assert response.status_code == 429
    assert "Too many attempts" in response.content.decode()


def test_a_lock_out_of_one_address_lets_the_owner_in_from_another(
    outsider: Client, olga: User, settings: Settings
) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT):
        log_in(outsider, "guess", REMOTE_ADDR="203.0.113.9")
    assert log_in(outsider, PASSWORD, REMOTE_ADDR="198.51.100.7") == 302


def test_a_form_without_its_csrf_token_is_refused(olga: User) -> None:
    assert log_in(Client(enforce_csrf_checks=True), PASSWORD) == 403


def test_the_admin_has_no_login_of_its_own(outsider: Client) -> None:
    response = outsider.get("/admin/login/?next=/admin/")
    assert response["Location"] == "/login?next=/admin/"


def test_who_has_no_role_sees_nothing(outsider: Client, olga: User) -> None:
    User.objects.update(is_superuser=False)
    assert log_in(outsider, PASSWORD) == 302
    assert [outsider.get(path).status_code for path in ("/", "/admin/", "/api/v1/incidents")] == [403] * 3
    assert outsider.post("/logout").status_code == 302


def test_logging_out_ends_the_session(owner: Client) -> None:
    owner.post("/logout")
    assert owner.get("/admin/")["Location"].startswith("/admin/login")


def test_htmx_is_sent_to_the_login_as_a_whole_page(outsider: Client) -> None:
    response = outsider.get("/logout", headers={"HX-Request": "true"})
    assert response.status_code == 401
    assert response["HX-Redirect"].startswith("/login?next=")


def test_pages_allow_scripts_from_our_own_server_alone(outsider: Client, owner: Client) -> None:
    for page in (outsider.get("/login"), owner.get("/silences"), owner.get("/admin/")):
        assert "default-src 'self'" in page["Content-Security-Policy"]
        assert "unsafe-eval" not in page["Content-Security-Policy"]

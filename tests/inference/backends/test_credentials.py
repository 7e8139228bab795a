"""Where the gateway finds the secrets of model servers."""

from pathlib import Path

import pytest

from inference.backends.credentials import CredentialError, Credentials

VARIABLE = "WEIR_BACKEND_CREDENTIAL_HOSTED_API"


def test_a_secret_is_a_file_or_else_a_variable(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, {VARIABLE: "of-variable"})
    assert credentials.read("hosted-api") == "of-variable"
    (tmp_path / "hosted-api").write_text("of-file\n")
    assert credentials.read("hosted-api") == "of-file"
    (tmp_path / "hosted-api").write_text("changed")
    assert credentials.read("hosted-api") == "changed"
    assert Credentials(None, {VARIABLE: "of-variable"}).read("hosted-api") == "of-variable"


@pytest.mark.parametrize("text", ["", "  \n", "two\nlines-secret", "sécret-ü"])
def test_a_secret_that_no_header_carries_is_refused_without_its_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosted-api").write_text(text)
    with pytest.raises(CredentialError) as caught:
        Credentials(tmp_path, {}).read("hosted-api")
    assert "hosted-api" in str(caught.value)
    assert "cret-" not in str(caught.value).replace("credential", "") and "lines" not in str(caught.value)


def test_a_missing_secret_is_named_with_both_places(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=f"{VARIABLE}.*WEIR_BACKEND_CREDENTIALS_DIR"):
        Credentials(tmp_path, {}).read("hosted-api")
    with pytest.raises(CredentialError, match="put the PEM file there"):
        Credentials(tmp_path, {}).certificates("company.pem")
    (tmp_path / "company.pem").write_text("-----BEGIN CERTIFICATE-----")
    assert Credentials(tmp_path, {}).certificates("company.pem") == tmp_path / "company.pem"

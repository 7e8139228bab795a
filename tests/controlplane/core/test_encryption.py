import secrets

import pytest
from cryptography.fernet import Fernet

from controlplane.config.secrets import new_secret
from controlplane.core.encryption import SealError, keys

OLD, NEW = Fernet.generate_key().decode(), new_secret()


def test_what_is_sealed_is_opened_and_never_looks_the_same_twice() -> None:
    ring = keys([OLD])
    once, again = ring.seal("routing-key"), ring.seal("routing-key")
    assert once != again
    assert "routing-key" not in once
    assert ring.open(once) == ring.open(again) == "routing-key"


def test_the_first_key_seals_and_any_opens() -> None:
    before = keys([OLD]).seal("routing-key")
    rotated = keys([NEW, OLD])
    assert rotated.open(before) == "routing-key"
    assert keys([NEW]).open(rotated.seal("routing-key")) == "routing-key"


def test_another_key_or_a_changed_text_says_what_to_do() -> None:
    sealed = keys([OLD]).seal("routing-key")
    for ring, text in ((keys([NEW]), sealed), (keys([OLD]), sealed[:-8] + "AAAAAAA="), (keys([OLD]), "")):
        with pytest.raises(SealError, match="restore WEIR_HOME/encryption-keys"):
            ring.open(text)


def test_the_digest_knows_a_secret_again_and_only_who_has_the_key_can_make_it() -> None:
    assert keys([OLD]).digests("a") == keys([OLD]).digests("a") != keys([OLD]).digests("b")
    assert keys([NEW, OLD]).digests("a") == [*keys([NEW]).digests("a"), *keys([OLD]).digests("a")]
    assert keys([NEW]).digests("a") != keys([OLD]).digests("a")


@pytest.mark.parametrize("texts", [[], [""], ["short"], [secrets.token_hex(32)], ["ü" * 43], [OLD, "short"]])
def test_what_is_no_key_is_refused_with_a_remedy_and_not_repeated(texts: list[str]) -> None:
    with pytest.raises(SealError, match="openssl rand -base64 32") as refused:
        keys(texts)
    assert not any(text in str(refused.value) for text in texts if len(text) > 5)


def test_keys_are_not_in_what_is_printed() -> None:
    assert OLD not in repr(keys([OLD]))

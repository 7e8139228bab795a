"""What makes a part of the snapshot one that cannot be obeyed, and what does not."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from inference.contract.credentials import Header, check_header, credential_variable, value_and_secret
from inference.contract.snapshot_checks import check_guard, check_issuer, check_tenant, check_timeouts
from inference.contract.snapshot_parts import GuardRule, Issuer, Tenant, TimeoutRule
from inference.contract.tensor_mapping import InputTensor, OutputTensor, TensorMapping, check_mapping

GUARD = GuardRule("alice/x", "alice", "patterns", patterns=("card",))
MODERATION = GuardRule("alice/x", "alice", "moderation", url="https://a/v1", credential="key")
ISSUER = Issuer("i", "https://login", "weir", "https://login/keys")
LINK_LOCAL = replace(ISSUER, jwks_url="https://169.254.7.7/keys")
TENANT = Tenant("a", key_sha256=(), tier="b")
TIMES = TimeoutRule("t", "m", "gold")
PROMPT, IDS = InputTensor("p", "BYTES", "prompt"), InputTensor("p", "INT32", "prompt_ids")
TEXT, VECTOR = OutputTensor("t", "BYTES", "text"), OutputTensor("v", "FP32", "embedding")


def guard(part: Any) -> Any:
    return check_guard(part, ("alice",), link_local=False)


def issuer(part: Any) -> Any:
    return check_issuer(part, link_local=False)


def timeouts(part: Any) -> Any:
    return check_timeouts(part, ("m",), ("gold",))


def constant(value: str) -> InputTensor:
    return InputTensor("c", "INT32", "constant", constant=value)


def mapped(part: Any) -> Any:
    check_mapping(part)
    return part


@pytest.mark.parametrize(
    ("check", "part", "reason"),
    [
        (guard, GUARD, ""),
        (guard, replace(GUARD, action="mask"), ""),
        (guard, MODERATION, ""),
        (guard, replace(MODERATION, url="http://127.0.0.1/v1"), ""),
        (guard, GuardRule("alice/x", "alice", "length", max_chars=1), ""),
        (guard, replace(GUARD, tenant="bob", name="bob/x"), "a tenant of the document"),
        (guard, replace(GUARD, name="bob/x"), "a tenant of the document"),
        (guard, replace(GUARD, patterns=()), "names no pattern"),
        (guard, GuardRule("alice/x", "alice", "length"), "names no length"),
        (guard, replace(MODERATION, action="mask"), "knows no part to mask"),
        (guard, replace(MODERATION, url="http://10.0.0.1/v1"), "use https"),
        (guard, replace(MODERATION, credential="../key"), "credential '../key' is not a name"),
        (issuer, ISSUER, ""),
        *((issuer, replace(ISSUER, **{name: ""}), f"{name} is empty") for name in ("issuer", "audience", "tenant_claim")),
        (issuer, replace(ISSUER, algorithms=()), "algorithms is empty"),
        (issuer, replace(ISSUER, jwks_url="http://10.0.0.1/"), "use https"),
        (issuer, LINK_LOCAL, "link-local"),
        (lambda part: check_issuer(part, link_local=True), LINK_LOCAL, ""),
        (timeouts, TIMES, ""),
        (timeouts, TimeoutRule("t"), ""),
        (timeouts, replace(TIMES, model="n"), "model 'n' is not one of m"),
        (timeouts, replace(TIMES, tier="n"), "tier 'n' is not one of gold"),
        (lambda tenant: check_tenant(tenant, ("gold",)), replace(TENANT, tier="gold"), ""),
        (lambda tenant: check_tenant(tenant, ("gold", "a")), TENANT, "tier 'b' is not one of a, gold"),
        (mapped, TensorMapping((PROMPT, constant("40")), (TEXT,)), ""),
        (mapped, TensorMapping((IDS,), (OutputTensor("o", "UINT64", "token_ids"),)), ""),
        (mapped, TensorMapping((PROMPT,), (VECTOR,)), ""),
        (mapped, TensorMapping((constant("1"),), (TEXT,)), "no input with the value"),
        (mapped, TensorMapping((replace(IDS, datatype="BYTES"),), (TEXT,)), "'p' is BYTES: token ids are INT32"),
        (mapped, TensorMapping((PROMPT,), (OutputTensor("o", "FP32", "token_ids"),)), "'o' is FP32"),
        (mapped, TensorMapping((PROMPT,), (OutputTensor("o", "BYTES", "finish_reason"),)), "no output with the value"),
        (mapped, TensorMapping((PROMPT,), (VECTOR, OutputTensor("o", "INT32", "prompt_tokens"))), "beside the 'embedding'"),
        (mapped, TensorMapping((PROMPT,), (replace(VECTOR, datatype="BYTES"),)), "'v' is BYTES: it has to be FP32"),
        (mapped, TensorMapping((PROMPT, constant("x")), (TEXT,)), "constant 'x' of tensor 'c' is not JSON"),
        (check_header, Header("api-key", "x"), ""),
        (check_header, Header("api-key", secret="x"), ""),
        (check_header, Header("api key", "x"), "not the name of a header"),
        (check_header, Header("Host", "x"), "itself writes the header"),
        (check_header, Header("a"), "either a value or"),
        (check_header, Header("a", "x", "y"), "either a value or"),
        *((check_header, Header("a", value), "no header can carry") for value in ("\u00fc", "\n")),
    ],
)  # fmt: skip
def test_a_part_is_as_it_was_or_its_fault_is_named(check: Callable[[Any], Any], part: Any, reason: str) -> None:
    if not reason:
        assert check(part) in (part, None)
        return
    with pytest.raises(ValueError, match=reason):
        check(part)


def test_token_ids_on_either_side_are_known() -> None:
    ids = OutputTensor("o", "UINT64", "token_ids")
    given = (((PROMPT,), (TEXT,)), ((IDS,), (TEXT,)), ((PROMPT,), (ids,)))
    assert [TensorMapping(*tensors).has_ids for tensors in given] == [False, True, True]


def test_secrets_are_named_and_never_written() -> None:
    assert [value_and_secret(text) for text in ("secret:key", "v1")] == [("", "key"), ("v1", "")]
    assert credential_variable("hosted-api.2") == "WEIR_BACKEND_CREDENTIAL_HOSTED_API_2"

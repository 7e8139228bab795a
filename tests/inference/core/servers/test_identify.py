"""Which server a list of models is from."""

import json

import pytest

from inference.core.servers.identify import (
    Listing,
    is_dynamo,
    llamacpp_context_length,
    misfit,
    read_card,
    read_listing,
    read_object,
)


def test_an_adapter_has_the_context_of_the_model_that_it_belongs_to() -> None:
    """As vLLM 0.32 lists them with `--lora-modules`."""
    base = {"id": "tiny", "owned_by": "vllm", "root": "/models/tiny", "parent": None, "max_model_len": 2048}
    tuned = {"id": "tuned", "owned_by": "vllm", "root": "/adapters/tuned", "parent": "tiny", "max_model_len": None}
    body = json.dumps({"object": "list", "data": [base, tuned]}).encode()
    expected = Listing("vllm", ("tiny", "tuned"), 2048)
    assert (read_listing(body, "tiny"), read_listing(body, "tuned")) == (expected, expected)
    orphan = json.dumps({"object": "list", "data": [tuned]}).encode()
    assert read_listing(orphan, "tuned") == Listing("vllm", ("tuned",), 0)


@pytest.mark.parametrize(
    ("body", "listing"),
    [
        ({"data": []}, Listing("other", (), 0)),
        ({"data": [{"id": "a", "owned_by": "nvidia"}]}, Listing("dynamo", ("a",), 0)),
        ({"data": [{"id": "a", "owned_by": "me"}, {"id": "m", "owned_by": "sglang", "max_model_len": 9}]},
         Listing("sglang", ("a", "m"), 9)),
        ({"data": [{"id": "a", "owned_by": "llamacpp", "aliases": ["b", ""]}]}, Listing("llamacpp", ("a", "b"), 0)),
        ({}, None),
        ([], None),
    ],
)  # fmt: skip
def test_a_list_of_models_says_which_server_it_is_from(body: object, listing: Listing | None) -> None:
    assert read_listing(json.dumps(body).encode(), "m") == listing


@pytest.mark.parametrize("body", [b'{"data": [{"id": "\xff"}]}', b'{"x": ' + b"[" * 100_000], ids=["no UTF-8", "deep"])
def test_what_cannot_be_read_is_no_list_of_models(body: bytes) -> None:
    assert (read_listing(body, "m"), read_card(body, "m"), read_object(body)) == (None, {}, {})


def test_objects_of_servers_say_nothing_where_they_are_none() -> None:
    assert (read_object(b'{"a": 1}'), read_object(b"[]"), read_object(b"{")) == ({"a": 1}, {}, {})
    cards = b'{"data": [1, {"id": "n"}, {"id": "m", "x": 1}]}'
    assert (read_card(cards, "m"), read_card(cards, "x"), read_card(b'{"data": 1}', "m")) == (
        {"id": "m", "x": 1},
        {},
        {},
    )
    assert [is_dynamo(health) for health in ({"endpoints": []}, {"instances": []}, {"status": "ok"})] == [
        True,
        True,
        False,
    ]
    lengths = ({"default_generation_settings": {"n_ctx": 9}}, {"default_generation_settings": {"n_ctx": "9"}}, {})
    assert [llamacpp_context_length(props) for props in lengths] == [9, 0, 0]
    assert (misfit("u", "a", ("b", "a")), misfit("u", "a", ())[:20]) == ("", "u lists no model yet")
    assert "but 'b': set" in misfit("u", "a", ("b",))
    assert "'4', '5': set" in misfit("u", "a", tuple("12345")) and "'5', …: set" in misfit("u", "a", tuple("123456"))

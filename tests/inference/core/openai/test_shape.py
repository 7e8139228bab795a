"""What is counted of a body before it is read is what JSON says, wherever its parts are cut."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.core.openai import shape
from inference.core.openai.errors import ApiError
from inference.core.openai.shape import Shape, check_length, check_shape

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.text('\\"[{,a\n', max_size=12),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('\\"[,', max_size=4), inner),
)


def counts(value: Any) -> tuple[int, int, int]:
    """Strings, containers, and commas between values."""
    if isinstance(value, str):
        return 1, 0, 0
    if not isinstance(value, list | dict):
        return 0, 0, 0
    inner = [*value] + (list(value.values()) if isinstance(value, dict) else [])
    strings, containers, commas = (sum(each) for each in zip((0, 0, 0), *map(counts, inner), strict=True))
    return strings, containers + 1, commas + max(0, len(value) - 1)


@given(VALUES, st.integers(1, 7))
@settings(deadline=None)
def test_counts_are_those_of_the_document(value: Any, part: int) -> None:
    body = json.dumps(value, separators=(",", ":")).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shape, "_PART_BYTES", part)
        for name, number in zip(("MAX_STRINGS", "MAX_CONTAINERS", "MAX_VALUES"), counts(value), strict=True):
            patch.setattr(shape, name, number)
        check_shape(body)  # at its bounds
        for name, number in zip(("MAX_STRINGS", "MAX_CONTAINERS", "MAX_VALUES"), counts(value), strict=True):
            if number:
                patch.setattr(shape, name, number - 1)
                with pytest.raises(ApiError):
                    check_shape(body)
                patch.setattr(shape, name, number)


@pytest.mark.parametrize(
    ("begins", "size", "is_long"),
    [
        (b"{" * 2000, 8192, False),
        (b"", 8193, False),
        (b"{" * 1025, 8193, True),
        (b"[" * 1024, 8193, False),
        (b"[{" * 512 + b"," * 8, 8193, True),
        (b"[{" * 512 + b"," * 7, 8193, False),
        (b"", 65_536, False),
        (b"", 65_537, True),
    ],
)
def test_a_body_takes_long_for_its_length_or_for_what_it_has(begins: bytes, size: int, is_long: bool) -> None:
    assert shape.takes_long(begins.ljust(size)) is is_long


def test_a_text_may_contain_what_json_is_made_of() -> None:
    text = '[{"a": [1, 2]}, ' * 100_000
    seen = check_shape(json.dumps({"messages": [{"role": "user", "content": text}]}).encode())
    assert seen.text_bytes > len(text) and not seen.has_data


def test_texts_far_too_long_for_a_model_are_refused_before_anything_is_done_to_them() -> None:
    check_length(Shape(64_000, False), 1_000, "messages")
    check_length(Shape(10**7, True), 1_000, "messages")  # images, whose bytes are no tokens
    with pytest.raises(ApiError) as caught:
        check_length(Shape(64_001, False), 1_000, "messages")
    assert caught.value.code == "context_length_exceeded"

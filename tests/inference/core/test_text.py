"""Long texts in parts."""

from inference.core.text import parts_of


def test_a_part_has_a_hundred_thousand_characters_at_most_and_ends_with_a_word() -> None:
    assert [len(part) for part in parts_of("x" * 250_000)] == [100_000, 100_000, 50_000]
    words = list(parts_of("word " * 50_000))
    assert "".join(words) == "word " * 50_000
    assert all(part.startswith(" word") for part in words[1:])
    assert all(98_000 < len(part) <= 100_000 for part in words[:-1])

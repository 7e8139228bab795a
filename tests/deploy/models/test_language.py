from itertools import islice
from pathlib import Path

import pytest

import deploy.local.models
from deploy.local.models.language import LanguageModel

PROMPT = "Why is the cache gone?"


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel.load(Path(deploy.local.models.__file__).with_name("corpus.txt"))


def text(model: LanguageModel, prompt: str, *, temperature: float = 0.0, seed: int | None = None) -> str:
    return "".join(model.generate(prompt, temperature=temperature, seed=seed))


def test_greedy_answers_are_repeatable(model: LanguageModel) -> None:
    assert text(model, PROMPT) == text(model, PROMPT)


def test_a_seed_makes_a_sampled_answer_repeatable(model: LanguageModel) -> None:
    assert text(model, PROMPT, temperature=1.0, seed=7) == text(model, PROMPT, temperature=1.0, seed=7)


def test_seeds_differ_from_each_other(model: LanguageModel) -> None:
    assert len({text(model, PROMPT, temperature=1.0, seed=seed) for seed in range(10)}) > 5


def test_answers_are_about_the_prompt(model: LanguageModel) -> None:
    assert "cache" in text(model, PROMPT)
    assert "Birds" in text(model, "Tell me about birds")


def test_what_is_said_around_a_question_does_not_change_its_answer(model: LanguageModel) -> None:
    asked = text(model, "What is a weir?")
    assert text(model, "Hi, could you tell me what is a weir? Thanks!") == asked
    assert text(model, "What is a queue?") != asked


def test_prompts_without_a_known_word_get_different_answers_too(model: LanguageModel) -> None:
    assert len({text(model, f"xyzzy{number}") for number in range(20)}) > 5


def test_every_answer_ends(model: LanguageModel) -> None:
    for number in range(50):
        tokens = list(islice(model.generate(f"question {number}", temperature=0.7, seed=number), 2000))
        assert 0 < len(tokens) < 2000


def test_it_knows_nothing_but_its_documents() -> None:
    model = LanguageModel.train(["one two three"])
    assert text(model, "anything") == "one two three"

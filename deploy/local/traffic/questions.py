"""What generated requests ask: varied, and the same for the same seed. Prompts are made of the sentences below."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

QUESTIONS = (
    "What is a weir?",
    "How do I find the slow part of a request?",
    "Why is the first word later than the others?",
    "What should a page to the person on call say?",
    "How much capacity do I need at noon?",
    "When is a cache allowed to answer?",
    "What is an error budget?",
    "How do I remove a machine without losing work?",
)
"""Repeated at temperature 0, so that the cache can answer them after the first time."""

ABOUT = (
    "a weir in a river",
    "a queue of requests",
    "the height of water near the old wall",
    "the height of water near the old town",
    "the first word of an answer",
    "a backup of the data",
)
WORDINGS = (
    ("", "hi, ", "hey, ", "tell me ", "could you tell me ", "hi, could you tell me ", "hey, tell me "),
    ("what is {}", "what does {} mean", "how does {} work", "why does {} matter"),
    ("?", "? Thanks.", "? Thanks!", ", thanks?", "? Thanks in advance."),
)
"""Put together: so many that most are new to the exact cache, and similar to another that it has. What differs in the middle part, or in
what it is about, is another question.
"""

SUBJECTS = (
    "the river",
    "a queue",
    "the cache",
    "bread",
    "the moon",
    "a bicycle",
    "birds in autumn",
    "a backup",
    "the budget",
    "a forecast",
)
WISHES = (
    "Explain {} to a child.",
    "Write a short story about {}.",
    "What is surprising about {}?",
    "Compare {} with {}.",
    "Summarise what follows about {}.",
)
NOTES = (
    "The gate was opened by a hand's breadth at six in the morning.",
    "After an hour the level had fallen, and nobody downstream had noticed.",
    "The second pump was slower than the first, though both are of the same make.",
    "We counted the requests again and found eleven more than in the log.",
    "Between noon and one o'clock the queue was never empty.",
    "The disk was replaced, and the times went back to what they were in spring.",
    "Somebody had set the limit to ten and written it down nowhere.",
    "In the evening the wind turned, and the water came back.",
)

TENANTS = {"gateway-key": 6, "gateway-key-premium": 2, "gateway-key-batch": 2}
"""Key files and how many requests in ten each sends; a missing file's share goes to the others."""


@dataclass(frozen=True, slots=True)
class Question:
    key_file: str
    model: str
    prompt: str
    max_tokens: int
    temperature: float
    stream: bool
    leaves_after_s: float | None  # a client that does not wait for its answer


def questions(chance: random.Random, key_files: dict[str, int]) -> Iterator[Question]:
    """Endless, varied questions; the same for the same `chance`."""
    while True:
        drawn = chance.random()
        repeated, reworded = drawn < 0.25, 0.25 <= drawn < 0.33
        cacheable = repeated or reworded
        batch = chance.choices(list(key_files), list(key_files.values()))[0]
        yield Question(
            key_file=batch,
            model="chat-small" if cacheable or chance.random() < 0.58 else "chat-large",
            prompt=chance.choice(QUESTIONS) if repeated else _reworded(chance) if reworded else _prompt(chance),
            max_tokens=48 if repeated else 64 if reworded else chance.choice((16, 32, 64, 64, 128)),
            temperature=0.0 if cacheable else 0.8,
            stream=chance.random() < 0.7,
            leaves_after_s=chance.uniform(0.05, 0.8) if chance.random() < 0.02 else None,
        )


def _reworded(chance: random.Random) -> str:
    greeting, query, thanks = map(chance.choice, WORDINGS)
    text = greeting + query.format(chance.choice(ABOUT)) + thanks
    return text[0].upper() + text[1:]


def _prompt(chance: random.Random) -> str:
    """A wish: mostly alone, sometimes with a page of notes, rarely with a long text of them."""
    wish = chance.choice(WISHES).format(chance.choice(SUBJECTS), chance.choice(SUBJECTS))
    sentences = chance.choices((0, chance.randint(5, 40), chance.randint(80, 300)), (70, 25, 5))[0]
    return " ".join((wish, *(f"{number}. {chance.choice(NOTES)}" for number in range(sentences))))


def rate_at(elapsed_s: float, mean_rps: float, day_s: float) -> float:
    """Requests per second: from half the mean at "night" to one and a half times it at "noon"."""
    return mean_rps * (1 - 0.5 * math.cos(2 * math.pi * elapsed_s / day_s))

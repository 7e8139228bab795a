"""A small language model: trigrams with back-off over a few pages, weighted by how near each page is to the prompt.

Its answers differ by prompt, temperature and seed, and end by themselves. They are not meant to be useful.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Context = tuple[int, ...]

TOKEN = re.compile(r" ?\w+|\s*[^\w\s]")
END = "\0"
ORDER_WEIGHTS = (0.002, 0.05, 0.948)  # of the unigram, bigram and trigram estimates
REPEATED = 1e-6  # factor on the weight of a token that would repeat three tokens


@dataclass(frozen=True, slots=True)
class Followers:
    """The tokens that followed a context: one entry per occurrence, with its document."""

    tokens: Numbers
    documents: Numbers


@dataclass(frozen=True)
class LanguageModel:
    vocabulary: tuple[str, ...]  # sorted; the first is END
    followers: dict[Context, Followers]  # by the zero, one or two tokens before
    rarity: dict[str, Weights]  # by word: its inverse document frequency in each document that contains it, else 0
    documents: int

    @classmethod
    def train(cls, documents: Sequence[str]) -> "LanguageModel":
        """Train on `documents`. Each is one complete answer, so the model learns where answers end."""
        texts = [[END, END, *tokens(document), END] for document in documents]
        vocabulary = tuple(sorted({token for text in texts for token in text}))
        ids = {token: number for number, token in enumerate(vocabulary)}
        seen: dict[Context, list[tuple[int, int]]] = {}
        for number, text in enumerate(texts):
            numbers = [ids[token] for token in text]
            for first, second, third in zip(numbers, numbers[1:], numbers[2:], strict=False):
                for context in ((), (second,), (first, second)):
                    seen.setdefault(context, []).append((third, number))
        followers = {context: Followers(*np.array(pairs).T) for context, pairs in seen.items()}
        return cls(vocabulary, followers, _rarity([words(document) for document in documents]), len(documents))

    @classmethod
    def load(cls, path: Path) -> "LanguageModel":
        """Train on a text file whose documents are separated by blank lines."""
        return cls.train(path.read_text(encoding="utf-8").strip().split("\n\n"))

    def generate(self, prompt: str, *, temperature: float, seed: int | None) -> Iterator[str]:
        """The texts of the tokens, up to where the model ends its answer.

        The same prompt at temperature 0, or with the same seed, gives the same text.
        """
        random = np.random.default_rng(seed)
        relevance = self._relevance(prompt)
        end = 0
        first = second = end
        written: dict[Context, list[int]] = {}
        while True:
            weights = self._next(first, second, relevance)
            weights[written.get((first, second), [])] *= REPEATED  # else greedy text repeats itself for ever
            token = _choose(weights, temperature, random)
            if token == end:
                return
            written.setdefault((first, second), []).append(token)
            yield self.vocabulary[token]
            first, second = second, token

    def _relevance(self, prompt: str) -> Weights:
        """The weight of each document: by the rare words that it shares with the prompt, and a little by the hash of these; of the prompt
        where there are none.
        """
        subject = sorted(words(prompt) & self.rarity.keys())
        shared = sum((self.rarity[word] for word in subject), np.zeros(self.documents))
        hashed = " ".join(subject) or prompt
        chance: Weights = np.random.default_rng(zlib.crc32(hashed.encode())).random(self.documents)
        return 0.01 + 0.5 * chance**8 + shared**2

    def _next(self, first: int, second: int, relevance: Weights) -> Weights:
        mixed = np.zeros(len(self.vocabulary))
        for weight, context in zip(ORDER_WEIGHTS, ((), (second,), (first, second)), strict=True):
            followers = self.followers.get(context)
            if followers is not None:
                counts = np.bincount(followers.tokens, relevance[followers.documents], minlength=len(mixed))
                mixed += counts * (weight / counts.sum())
        return mixed


def tokens(text: str) -> list[str]:
    """Words and punctuation marks, each with the space before it. Joined, they are the text without its line ends."""
    return TOKEN.findall(text)


def words(text: str) -> set[str]:
    return {token.strip().lower() for token in tokens(text)}


def _rarity(documents: Sequence[set[str]]) -> dict[str, Weights]:
    """The rarity of words. Words in more than a fifth of the documents do not help to find the subject, and are left out."""
    holders: dict[str, list[int]] = {}
    for number, document in enumerate(documents):
        for word in document:
            holders.setdefault(word, []).append(number)
    rarity = {}
    for word, numbers in holders.items():
        if len(numbers) * 5 <= len(documents):
            rarity[word] = np.zeros(len(documents))
            rarity[word][numbers] = np.log(len(documents) / len(numbers))
    return rarity


def _choose(weights: Weights, temperature: float, random: np.random.Generator) -> int:
    if temperature <= 0:
        return int(weights.argmax())
    with np.errstate(divide="ignore"):
        logits = np.log(weights) / temperature
    scaled = np.exp(logits - logits.max())
    return int(random.choice(len(weights), p=scaled / scaled.sum()))

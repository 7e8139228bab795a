"""Finds numbers of payment cards, keys of well-known services, and mail addresses in a text.

Plain text costs no more than looking for the letters that each of them has: nothing is tried at each character.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from inference.contract.snapshot_parts import Pattern

MAX_FOUND_CHARS = 320
"""None is longer, so that what comes in parts can be looked through with so much kept back."""
_STEP_CHARS = 32 << 10  # a long text is looked through in steps, between which other threads have their turn

_CARD = re.compile(r"\d(?:[ -]?\d){12,62}")
_GROUP = re.compile(r"\d+")
_MIN_CARD_DIGITS, _MAX_CARD_DIGITS = 13, 19
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)

_KEY_BEGINS = (
    "sk-", "sk_live_", "rk_live_", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxa-", "xoxb-",
    "xoxp-", "xoxr-", "xoxs-", "AIza", "hf_", "npm_", "weir_key_", "weir_api_",
)  # fmt: skip
_LONG_WORD = re.compile(r"[A-Za-z0-9_-]{15}")  # that each has
_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[\w-]{20,250}|[sr]k_live_[A-Za-z0-9]{16,250}|A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])|gh[pousr]_[A-Za-z0-9]{36,250}|"
    r"github_pat_\w{22,250}|glpat-[\w-]{20,250}|xox[abprs]-[A-Za-z0-9-]{10,250}|AIza[\w-]{35}|hf_[A-Za-z0-9]{30,250}|"
    r"npm_[A-Za-z0-9]{36}|weir_(?:key|api)_[\w-]{20,250})"
)
_MAILBOX = re.compile(r"[\w.+%-]+")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])")
_MAX_MAILBOX, _MAX_DOMAIN = 64, 253

_OPEN_WORD = re.compile(r"[\w.+%@-]*")
_OPEN_NUMBER = re.compile(r"(?:[ -]?\d)*")


class Found(NamedTuple):
    start: int
    end: int
    pattern: Pattern


def find(text: str, patterns: Collection[Pattern]) -> list[Found]:
    """In their order, none within another."""
    matches: list[Found] = []
    if "card" in patterns:
        matches += _cards(text)
    if "key" in patterns and _LONG_WORD.search(text) and any(begin in text for begin in _KEY_BEGINS):
        matches += (Found(*match.span(), "key") for match in _matches(_KEY, text))
    if "mail" in patterns and "@" in text:
        matches += _mails(text)
    if len(matches) < 2:
        return matches
    matches.sort()
    apart = matches[:1]
    for each in matches[1:]:
        if each.start >= apart[-1].end:
            apart.append(each)
    return apart


def replaced(text: str, matches: Collection[Found]) -> str:
    """The text with the name of the pattern in the place of each."""
    parts, at = [], 0
    for start, end, pattern in matches:
        parts += [text[at:start], mask(pattern)]
        at = end
    return "".join((*parts, text[at:]))


def mask(pattern: Pattern) -> str:
    return f"[{pattern}]"


def open_chars(text: str) -> int:
    """How many characters at the end of the text may be the beginning of something that more text completes."""
    backwards = text[: -MAX_FOUND_CHARS - 1 : -1]
    open_word, open_number = _OPEN_WORD.match(backwards), _OPEN_NUMBER.match(backwards.lstrip(" -"))
    blanks = len(backwards) - len(backwards.lstrip(" -"))
    digits = open_number.end() if open_number else 0
    return max(open_word.end() if open_word else 0, blanks + digits if digits else 0)


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text):
        step_end = at + _STEP_CHARS
        for match in pattern.finditer(text, at, step_end + MAX_FOUND_CHARS):
            if match.start() >= step_end:
                break
            at = match.end()
            yield match
        at = max(at, step_end)


def _cards(text: str) -> Iterator[Found]:
    """Numbers that a card may have: of its length, of one of its networks, and with its last digit (ISO/IEC 7812-1). One may stand
    beside other numbers, but not within a longer row of digits.
    """
    for match in _matches(_CARD, text):
        groups = [group.span() for group in _GROUP.finditer(text, *match.span())]
        if len(groups) == 1 and len(match[0]) > _MAX_CARD_DIGITS:
            continue
        counts, sums = (
            [0],
            ([0], [0]),
        )  # digits before each group; sums of all digits before each, with every other one doubled
        for start, end in groups:
            for character in text[start:end]:
                digit, number = int(character), (len(sums[0]) - 1) % 2
                sums[number].append(sums[number][-1] + _DOUBLED[digit])
                sums[1 - number].append(sums[1 - number][-1] + digit)
            counts.append(len(sums[0]) - 1)
        number = 0
        while number < len(groups):
            first, last = counts[number], 0
            if text[groups[number][0]] in "23456":
                for end in range(number + 1, min(len(groups), number + _MAX_CARD_DIGITS) + 1):
                    length = counts[end] - first
                    if length > _MAX_CARD_DIGITS:
                        break
                    doubled = sums[counts[end] % 2]  # the last digit is not, the one before it is
                    total = doubled[counts[end]] - doubled[first]
                    if length >= _MIN_CARD_DIGITS and total % 10 == 0:
                        last = end
            if last:
                yield Found(groups[number][0], groups[last - 1][1], "card")
            number = last or number + 1


def _mails(text: str) -> Iterator[Found]:
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1, at + 1 + _MAX_DOMAIN)
        mailbox = _MAILBOX.match(text[max(0, at - _MAX_MAILBOX) : at][::-1]) if domain else None
        if mailbox and domain:
            yield Found(at - mailbox.end(), domain.end(), "mail")
        at = text.find("@", at + 1)

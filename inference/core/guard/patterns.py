"""Finds numbers of payment cards, keys of well-known services, private keys, and mail addresses in a text.

Plain text costs no more than two tables (`bytes.translate`) that leave of it what each of them must have, a row of digits or a long word:
no expression is tried at each character.
"""

import re
import string
import sys
from collections.abc import Collection, Iterator
from typing import NamedTuple

from inference.contract.snapshot_parts import Pattern

MAX_FOUND_CHARS = 320
"""None but a private key is longer, so that what comes in parts can be looked through with so much kept back."""
MIN_FOUND_CHARS = 13
"""None but a mail address is shorter."""
_STEP_CHARS = 32 << 10  # a long text is looked through in steps, between which other threads have their turn

_CARD = re.compile(r"[0-9](?:[ -]?[0-9]){12,62}")
_GROUP = re.compile(r"[0-9]+")
_MIN_CARD_DIGITS, _MAX_CARD_DIGITS = 13, 19
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)

_AS_DIGITS = bytes(ord("d") if chr(byte).isdigit() else ord(".") for byte in range(256))
_DIGITS = b"d" * _MIN_CARD_DIGITS
_WORD = string.ascii_letters + string.digits + "_-"
_AS_WORDS = bytes(ord("w") if chr(byte) in _WORD else ord(".") for byte in range(256))
_LONG = b"w" * 15  # that each key has
_BACKSLASH, _AT = b"\\@"
_KEYS = {
    "sk-": r"[\w-]{20,250}",
    "sk_live_": "[A-Za-z0-9]{16,250}",
    "rk_live_": "[A-Za-z0-9]{16,250}",
    "A[KS]IA": "[A-Z0-9]{16}(?![A-Za-z0-9])",
    "gh[pousr]_": "[A-Za-z0-9]{36,250}",
    "github_pat_": r"\w{22,250}",
    "glpat-": r"[\w-]{20,250}",
    "xox[abprs]-": "[A-Za-z0-9-]{10,250}",
    "AIza": r"[\w-]{35}",
    "hf_": "[A-Za-z0-9]{30,250}",
    "npm_": "[A-Za-z0-9]{36}",
    "weir_(?:key|api)_": r"[\w-]{20,250}",
}
"""How they begin and go on. They begin with a letter each, so that the expression is tried at these letters alone."""
_KEY = re.compile("|".join(f"{it[0]}(?<![A-Za-z0-9]{it[0]}){it[1:]}{rest}" for it, rest in _KEYS.items()))
_KEY_BEGINS = re.compile("|".join(_KEYS).encode())
_MAILBOX = re.compile(r"[\w.+%-]+")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])")
_MAX_MAILBOX, _MAX_DOMAIN = 64, 253

_BLOCK_NAME = r"[A-Z0-9 ]{0,24}PRIVATE KEY(?: BLOCK)?-----"
_BLOCK_BEGINS = "-----BEGIN "
_BLOCK_NAMED = b"PRIVATE KEY"
_BLOCK_BEGIN = re.compile(_BLOCK_BEGINS + _BLOCK_NAME)
_BLOCK_END = re.compile("-----END " + _BLOCK_NAME)
_BLOCK_LINES = re.compile(r"(?:\s+[A-Za-z0-9+/=]{16,})*")
_MAX_BLOCK_LINE = 64  # its first and last line
MAX_BLOCK_CHARS = 16 << 10

_OPEN_WORD, _OPEN_NUMBER = _WORD + ".+%@", string.digits + " -"
_OPEN_UNICODE = re.compile(r"[\w.+%@-]*")


class Found(NamedTuple):
    start: int
    end: int
    pattern: Pattern


def may_have(document: bytes, patterns: Collection[Pattern]) -> bool:
    """Whether one of the texts in JSON may have something of them, which costs less to know than to look through each."""
    # A number in bytes costs a fifth of bytes in bytes, which raise an error within; `rfind` less than `find`.
    if (_BACKSLASH in document and document.rfind(b"\\u") >= 0) or ("mail" in patterns and _AT in document):
        return True
    if "card" in patterns and document.translate(_AS_DIGITS, b" -").rfind(_DIGITS) >= 0:
        return True
    if "key" not in patterns:
        return False
    for start, end in _long_words(document.translate(_AS_WORDS)):
        if _KEY_BEGINS.search(document, start, end):
            return True
    return document.rfind(_BLOCK_NAMED) >= 0


def find(text: str, patterns: Collection[Pattern]) -> list[Found]:
    """In their order, none within another."""
    if len(text) < MIN_FOUND_CHARS and "@" not in text:
        return []  # as most parts of streams
    matches: list[Found] = []
    plain = text.encode("ascii", "replace")  # a byte for each character
    if "card" in patterns and plain.translate(_AS_DIGITS, b" -").rfind(_DIGITS) >= 0:
        matches += _cards(text)
    if "key" in patterns:
        for word in _long_words(plain.translate(_AS_WORDS)):
            matches += (Found(*match.span(), "key") for match in _matches(_KEY, text, *word))
        if _BLOCK_BEGINS in text:
            matches += _blocks(text)
    if "mail" in patterns and "@" in text:
        matches += _mails(text)
    if len(matches) < 2:  # nearly always, and in most texts none
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
    unicode = None if text.isascii() else _OPEN_UNICODE.match(text[: -MAX_FOUND_CHARS - 1 : -1])
    word = unicode.end() if unicode else len(text) - len(text.rstrip(_OPEN_WORD))
    number = len(text[len(text.rstrip(_OPEN_NUMBER)) :].lstrip(" -"))
    block = text.rfind(_BLOCK_BEGINS, max(0, len(text) - _MAX_BLOCK_LINE))
    return max(word, number, len(text) - block if block >= 0 else 0)


def end_of_block(text: str, at: int) -> int:
    """Where the private key that has begun before `at` ends, behind its last line; -1 where it does not."""
    end = _BLOCK_END.search(text, at, at + MAX_BLOCK_CHARS)
    return end.end() if end else -1


def is_open_block(text: str, match: Found) -> bool:
    """Whether what was found is a private key whose end has not come."""
    return bool(_BLOCK_BEGIN.match(text, match.start)) and not _BLOCK_END.search(text, match.start, match.end)


def _blocks(text: str) -> Iterator[Found]:
    """Private keys in lines of their own (PEM, RFC 7468). Of one without an end, what looks like its lines."""
    end = 0
    for begin in _BLOCK_BEGIN.finditer(text):
        if begin.start() >= end:
            end = end_of_block(text, begin.end())
            if end < 0:
                lines = _BLOCK_LINES.match(text, begin.end(), begin.end() + MAX_BLOCK_CHARS)
                end = lines.end() if lines else begin.end()
            yield Found(begin.start(), end, "key")


def _long_words(words: bytes) -> list[tuple[int, int]]:
    """Where each stands, the last first, in what a table has left of a text."""
    spans, at = [], words.rfind(_LONG)
    while at >= 0:
        start = words.rfind(b".", 0, at) + 1
        spans.append((start, at + len(_LONG)))
        at = words.rfind(_LONG, 0, start)
    return spans


def _matches(pattern: re.Pattern[str], text: str, at: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[str]]:
    """Those between two places."""
    end = min(end, len(text))
    while at < end:
        step_end = at + _STEP_CHARS
        for match in pattern.finditer(text, at, min(end, step_end + MAX_FOUND_CHARS)):
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

"""The words by which two texts are told apart. English ones; of other languages every word counts as it stands."""

import re


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPPOSITES = """
enable/disable enabled/disabled enabling/disabling on/off in/out up/down left/right true/false yes/no start/stop begin/end
open/close opened/closed lock/unlock locked/unlocked increase/decrease raise/lower add/remove insert/delete create/destroy
install/uninstall buy/sell import/export encrypt/decrypt encode/decode compress/decompress upload/download push/pull read/write
send/receive allow/deny allow/forbid allow/block accept/reject accept/decline include/exclude show/hide connect/disconnect
attach/detach mount/unmount login/logout subscribe/unsubscribe follow/unfollow join/leave win/lose won/lost pass/fail
passed/failed success/failure safe/unsafe safe/dangerous legal/illegal valid/invalid possible/impossible like/dislike love/hate
good/bad best/worst better/worse high/low hot/cold big/small large/small long/short fast/slow early/late old/new old/young
first/last minimum/maximum min/max ascending/descending positive/negative male/female man/woman husband/wife mother/father
brother/sister son/daughter public/private internal/external input/output sync/async advantages/disadvantages
advantage/disadvantage benefits/drawbacks benefits/risks pros/cons cause/effect causes/effects cause/prevent causes/prevents
credit/debit deposit/withdraw borrow/lend gain/lose gain/loss profit/loss rise/fall grow/shrink expand/shrink hire/fire
employer/employee buyer/seller teacher/student north/south east/west day/night morning/evening summer/winter dark/light
black/white wet/dry full/empty heavy/light hard/easy hard/soft rich/poor strong/weak alive/dead always/never all/none
everyone/nobody everything/nothing with/without inside/outside above/below over/under before/after since/until from/to
ask/answer question/answer grant/revoke promote/demote activate/deactivate engage/disengage arrive/depart arrival/departure
enter/exit attack/defend help/harm heal/hurt forward/backward vertical/horizontal require/prohibit mandatory/optional
cancel/confirm approve/reject backup/restore mute/unmute pin/unpin check/uncheck select/deselect show/conceal build/demolish
expensive/cheap deep/shallow thick/thin wide/narrow fresh/stale major/minor inner/outer upper/lower senior/junior top/bottom
"""

OPPOSITES = tuple(tuple(pair.split("/")) for pair in sorted(_set(_OPPOSITES)))
"""Pairs of words that turn a text into its opposite."""

_ROLES = _set("from to by for of into onto via than between against versus vs toward towards as")
_COMPARATIVES = _set(
    "more less most least fewer fewest greater lesser better worse best worst higher lower highest lowest bigger smaller "
    "biggest smallest larger largest longer shorter longest shortest faster slower fastest slowest older newer oldest newest "
    "exactly only just even almost nearly about around approximately maximum minimum before after until since"
)
_NEGATIONS = _set(
    "not no never none nobody nothing neither nor without cannot except unless avoid stop prevent refuse hardly "
    "rarely lack missing wrong false exclude excluding isnt arent wasnt werent dont doesnt didnt cant couldnt wont wouldnt "
    "shouldnt nicht kein keine keinen ohne nie ne pas jamais sans sin nunca non senza"
)

KINDS: dict[str, str] = {
    **{word: "opposite" for pair in OPPOSITES for word in pair},
    **dict.fromkeys(_COMPARATIVES, "comparative"),
    **dict.fromkeys(_ROLES, "role"),
    **dict.fromkeys(_NEGATIONS, "negation"),
}
"""What a word is, where it is more than a word. Later lines win."""

ENGLISH = _set("the is are were what which who how why when where does did of and can should please your")
"""Some of these are in nearly every English text of three words, and in few others."""

FULL_FORMS = (
    (re.compile(r"\b(ca)n't\b"), r"\1n not"),
    (re.compile(r"\bcannot\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bshan't\b"), "shall not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b([Ww]hat|[Ww]ho|[Ww]here|[Ww]hen|[Hh]ow|[Ii]t|[Tt]hat|[Tt]here)'s\b"), r"\1 is"),
    (re.compile(r"\b([Ww]hat|[Ww]ho|[Ww]here|[Ww]hy|[Hh]ow|[Yy]ou|[Ww]e|[Tt]hey)'re\b"), r"\1 are"),
)
"""What contractions stand for."""

GREETING = re.compile(r"^(?:(?:hi|hello|hey)(?: there)?[,.!]? )+", re.IGNORECASE)
REQUEST = re.compile(
    r"^(?:please,? )?(?:(?:can|could|would|will) you (?:please )?(?=(?:tell|explain|give|show|help|list|describe)\b)"
    r"|(?:i would|i'd) like to know (?=wh|how)|i want to know (?=wh|how))?(?:please )?(?:tell me (?=wh|how))?",
    re.IGNORECASE,
)
THANKS = re.compile(r"[,.!?]? (?:please|thanks|thank you)(?: in advance)?[.!?]*$", re.IGNORECASE)
HOW_TO = re.compile(r"^how (?:do|can|would|should|could) (?:i|we|you|one) ", re.IGNORECASE)
"""What is said around a question, and changes nothing of its answer."""

ARTICLES = _set("a an the")
AMOUNTS = _set("few little lot couple number bit")
"""After an article these say something else than without: `a few`."""

DEIXIS = re.compile(
    r"\b(?:this|that|these|those|it|its|he|she|they|them|him|his|her|above|below|previous|former|latter|continue|again|go on"
    r"|go ahead|keep going|same|another|next|else)\b",
    re.IGNORECASE,
)
"""Words that point at something outside of the text."""

TIMELY = re.compile(
    r"\b(?:now|today|tonight|yesterday|tomorrow|currently|current|latest|recent|recently|ago|my|mine|our|ours|myself|i am|i'm)\b",
    re.IGNORECASE,
)
"""Words by which the answer depends on when, or by whom, it was asked."""

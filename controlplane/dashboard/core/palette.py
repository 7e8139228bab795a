"""How each stage looks, everywhere: one colour, one pattern, one label.

Colours are Okabe and Ito's, which stay apart for every kind of colour vision; their values are CSS variables (`weir.css`), so
that figures and pages follow the theme. The two stages that most often dominate, queue and model, got the pair that is furthest apart.
"""

from typing import NamedTuple

from inference.contract.stages import STAGES

UNATTRIBUTED = "unattributed"
BANDS = (*STAGES, UNATTRIBUTED)
"""What a stack is made of, bottom to top: in the order a request passes through them."""


class Look(NamedTuple):
    label: str
    colour: str  # a CSS value
    pattern: str  # plotly's `marker.pattern.shape`; "" is plain
    means: str


LOOKS: dict[str, Look] = {
    "network": Look(
        "network", "var(--stage-network)", ".", "between processes: nothing on either side accounts for it"
    ),
    "gateway": Look("gateway", "var(--stage-gateway)", "", "authenticate, parse, normalise, key"),
    "tokenizer": Look("tokenizer", "var(--stage-tokenizer)", "", "turn the prompt into tokens"),
    "cache": Look("cache", "var(--stage-cache)", "", "look the answer up in Redis"),
    "queue": Look("queue", "var(--stage-queue)", "", "wait for a place, in the gateway or in the server"),
    "model": Look("model", "var(--stage-model)", "", "prefill and decode"),
    "egress": Look("egress", "var(--stage-egress)", "\\", "last token received until the answer is written"),
    UNATTRIBUTED: Look("unattributed", "var(--stage-unattributed)", "/", "no span explains it"),
}


def look(stage: str) -> Look:
    return LOOKS.get(stage, LOOKS[UNATTRIBUTED])

"""How each stage looks, everywhere: one colour, one pattern, one label.

Colours are Okabe and Ito's, which stay apart for every kind of colour vision; their values are CSS variables (`weir.css`), so
that figures and pages follow the theme. The two stages that most often dominate, queue and model, got the pair that is furthest apart.
"""

from typing import NamedTuple

from inference.contract.stages import STAGES

UNATTRIBUTED = "unattributed"
BANDS = (*STAGES, UNATTRIBUTED)
"""What a stack is made of, bottom to top: in the order a request passes through them."""


class StageStyle(NamedTuple):
    label: str
    colour: str  # a CSS value
    pattern: str  # plotly's `marker.pattern.shape`; "" is plain
    means: str


STYLES: dict[str, StageStyle] = {
    "retrieval": StageStyle("retrieval", "var(--stage-retrieval)", "x", "the application looks for documents"),
    "rerank": StageStyle("rerank", "var(--stage-rerank)", "-", "the application orders what it found"),
    "network": StageStyle(
        "network", "var(--stage-network)", ".", "between processes: nothing on either side accounts for it"
    ),
    "gateway": StageStyle("gateway", "var(--stage-gateway)", "", "authenticate, parse, normalise, key"),
    "tokenizer": StageStyle("tokenizer", "var(--stage-tokenizer)", "", "turn the prompt into tokens"),
    "cache": StageStyle("cache", "var(--stage-cache)", "", "look the answer up in Redis"),
    "queue": StageStyle("queue", "var(--stage-queue)", "", "wait for a place, in the gateway or in the server"),
    "model": StageStyle("model", "var(--stage-model)", "", "prefill and decode"),
    "egress": StageStyle("egress", "var(--stage-egress)", "\\", "last token received until the answer is written"),
    UNATTRIBUTED: StageStyle("unattributed", "var(--stage-unattributed)", "/", "no span explains it"),
}


def stage_style(stage: str) -> StageStyle:
    return STYLES.get(stage, STYLES[UNATTRIBUTED])

import numpy as np
import pytest

from deploy.local.models.lexical import DIMENSIONS, vector
from inference.core.semantic.evidence import THRESHOLDS


def similarity(one: str, other: str) -> float:
    return float(vector(one) @ vector(other))


@pytest.mark.parametrize("text", ["What is a weir?", "", "?!", "Où est la rivière", "水位"])
def test_a_vector_has_length_1_whatever_the_text_is(text: str) -> None:
    assert vector(text).shape == (DIMENSIONS,)
    assert vector(text).dtype == np.float32
    assert np.linalg.norm(vector(text)) == pytest.approx(1.0)
    assert vector(text).tobytes() == vector(text).tobytes()


def test_what_is_said_around_a_question_changes_little() -> None:
    asked = "What is the first word of an answer?"
    assert similarity(asked, "Hi, could you tell me what is the first word of an answer? Thanks!") > THRESHOLDS[0]
    assert similarity(asked, "Why does a queue of requests matter?") < THRESHOLDS[0]


def test_it_is_lexical_and_not_semantic() -> None:
    assert similarity("open the lower gate before the upper gate", "open the upper gate before the lower gate") > 0.99
    assert similarity("relocate the office", "move to other rooms") < THRESHOLDS[0]

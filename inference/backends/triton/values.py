"""The values that a question gives to a model's inputs."""

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from inference.backends.port import CallInfo
from inference.core.backend_errors import InvalidError
from inference.core.question import Question

Value = bool | int | float | str | tuple[str, ...] | tuple[int, ...] | None
"""None leaves the tensor out."""
_NO_SEED, _MAX_SEED = -1, (1 << 63) - 1
_DEFAULT_TEMPERATURE = 1.0
_json = msgspec.json.Encoder().encode
_SAME_IN_VLLM = (
    "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "min_tokens", "ignore_eos", "skip_special_tokens", "include_stop_str_in_output",
)  # fmt: skip
"""Keys of vLLM's SamplingParams (vllm/sampling_params.py) with the names and meanings of the question's."""
_LISTS_IN_VLLM = ("stop", "stop_token_ids", "bad_words")


class Request(NamedTuple):
    """What the values are taken from. `choice` counts the calls that make several choices of one question."""

    question: Question
    call: CallInfo
    decoupled: bool
    choice: int = 0

    @property
    def id(self) -> bytes:
        """The traceparent, because Triton 2.51 sometimes loses the header (docs/models.md)."""
        traceparent = self.call.traceparent
        return b"%b-%d" % (traceparent, self.choice) if self.choice else traceparent

    @property
    def seed(self) -> int | None:
        """As vLLM does it for several choices (vllm/v1/engine/parallel_sampling.py): each has the next seed, and 0 follows the largest."""
        seed = self.question.seed
        return None if seed is None else seed + self.choice & _MAX_SEED


def prompt(request: Request) -> str:
    return str(request.call.prompt)


def max_tokens(request: Request) -> int:
    limit = request.question.max_tokens
    return request.call.max_tokens if limit is None else limit


def temperature(request: Request) -> float:
    given = request.question.temperature
    return _DEFAULT_TEMPERATURE if given is None else given


# TensorRT-LLM's defaults are not OpenAI's: without top_k and top_p it takes the likeliest token, without a seed the
# seed is always 0, and a temperature must be above 0 (tensorrt_llm/sampling_params.py).


def _greedy(request: Request) -> bool:
    return request.question.temperature == 0


def sampling_temperature(request: Request) -> float | None:
    return None if _greedy(request) else temperature(request)


def sampling_top_p(request: Request) -> float | None:
    if _greedy(request):
        return None
    return 1.0 if request.question.top_p is None else request.question.top_p


def sampling_top_k(request: Request) -> int | None:
    if _greedy(request):
        return 1
    given = request.question.top_k
    return given if given is None or given > 0 else None  # vLLM's -1 and 0 mean all


def sampling_seed(request: Request) -> int:
    return random.getrandbits(64) if request.seed is None else request.seed & (1 << 64) - 1


def seed_or_none(request: Request) -> int:
    return _NO_SEED if request.seed is None else request.seed


def vllm_sampling(request: Request) -> str:
    """One JSON object of vLLM's SamplingParams, as TritonSamplingParams.from_dict of vllm_backend reads it."""
    question = request.question
    given: dict[str, object] = {"max_tokens": max_tokens(request)}
    for name in _SAME_IN_VLLM:
        if (value := getattr(question, name)) is not None:
            given[name] = value
    for name in _LISTS_IN_VLLM:
        if value := getattr(question, name):
            given[name] = list(value)
    if request.seed is not None:
        given["seed"] = request.seed
    if (logprobs := _logprobs(question)) is not None:
        given["logprobs"] = logprobs
    if (structure := _structure(question)) is not None:
        given["structured_outputs"] = _json(structure).decode()  # a string inside the object: it is parsed once more
    return _json(given).decode()


def _logprobs(question: Question) -> int | None:
    """How many alternatives of each token; None for no logprobs."""
    if question.operation == "chat":
        return None if not question.logprobs else question.top_logprobs or 0
    return question.logprobs


def wants_logprobs(request: Request) -> bool | None:
    return None if _logprobs(request.question) is None else True


def _structure(question: Question) -> dict[str, object] | None:
    """What the answer must look like, in the words of vLLM's StructuredOutputsParams."""
    if question.structured_outputs is not None:
        return question.structured_outputs
    wanted = question.response_format or {}
    if wanted.get("type") == "json_object":
        return {"json_object": True}
    if wanted.get("type") == "json_schema":
        return {"json": wanted.get("json_schema", {}).get("schema", {})}
    return None


_GUIDES = {"json": "json_schema", "regex": "regex", "grammar": "ebnf_grammar", "json_object": "json"}
"""Names of TensorRT-LLM's guide types (docs of its GuidedDecodingParams), by vLLM's."""


def _guide(request: Request) -> tuple[str, str]:
    structure = _structure(request.question)
    if structure is None:
        return "", ""
    for name, guide_type in _GUIDES.items():
        if structure.get(name):
            value = structure[name]
            if guide_type == "json":
                return guide_type, ""
            return guide_type, value if isinstance(value, str) else _json(value).decode()
    raise InvalidError(
        f"This model's server has no structured outputs of the kind {', '.join(structure)}. Use one of {', '.join(_GUIDES)}.",
        param="structured_outputs",
    )


def guide_type(request: Request) -> str | None:
    return _guide(request)[0] or None


def guide(request: Request) -> str | None:
    return _guide(request)[1] or None


def _images(question: Question) -> list[str]:
    return [
        part.image_url.url
        for message in question.messages
        if type(message.content) is tuple
        for part in message.content
        if part.image_url is not None
    ]


def images_base64(request: Request) -> tuple[str, ...] | None:
    images = _images(request.question)
    for url in images:
        if not (url.startswith("data:") and ";base64," in url[:200]):
            raise InvalidError(
                "This model's server takes images as data: URLs in base64 alone: send the image itself, such as "
                "data:image/png;base64,iVBORw0…",
                param="messages",
            )
    return tuple(url.partition(",")[2] for url in images) or None


def image_urls(request: Request) -> tuple[str, ...] | None:
    return tuple(_images(request.question)) or None


def image_url(request: Request) -> str | None:
    images = _images(request.question)
    if len(images) > 1:
        raise InvalidError(f"This model's server takes 1 image, and not {len(images)}: send 1.", param="messages")
    return images[0] if images else None


VALUES: Mapping[str, Callable[[Request], Value]] = {
    "prompt": prompt,
    "prompt_ids": lambda request: request.call.prompt_ids,
    "prompt_tokens": lambda request: request.call.prompt_tokens,
    "max_tokens": max_tokens,
    "temperature": temperature,
    "sampling_temperature": sampling_temperature,
    "top_p": lambda request: request.question.top_p,
    "sampling_top_p": sampling_top_p,
    "top_k": lambda request: request.question.top_k,
    "sampling_top_k": sampling_top_k,
    "seed_or_none": seed_or_none,
    "sampling_seed": sampling_seed,
    "stop": lambda request: request.question.stop or None,
    "bad_words": lambda request: request.question.bad_words or None,
    "presence_penalty": lambda request: request.question.presence_penalty,
    "frequency_penalty": lambda request: request.question.frequency_penalty,
    "repetition_penalty": lambda request: request.question.repetition_penalty,
    "min_tokens": lambda request: request.question.min_tokens,
    "choices": lambda request: request.question.n if request.question.n > 1 else None,
    "stream": lambda request: True if request.decoupled else None,
    "vllm_sampling": vllm_sampling,
    "wants_logprobs": wants_logprobs,
    "guide_type": guide_type,
    "guide": guide,
    "images_base64": images_base64,
    "image_urls": image_urls,
    "image_url": image_url,
}

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in (
        "max_tokens", "temperature", "top_p", "top_k", "stop", "bad_words", "presence_penalty", "frequency_penalty",
        "repetition_penalty", "min_tokens",
    )},
    "prompt_ids": ("token_ids",),
    "sampling_temperature": ("temperature",),
    "sampling_top_p": ("top_p",),
    "sampling_top_k": ("top_k",),
    "seed_or_none": ("seed",),
    "sampling_seed": ("seed",),
    "choices": ("n",),
    "guide": ("response_format", "structured_outputs"),
    "images_base64": ("image_url",),
    "image_urls": ("image_url",),
    "image_url": ("image_url",),
    "wants_logprobs": ("logprobs", "top_logprobs"),
    "vllm_sampling": ("max_tokens", *_SAME_IN_VLLM, *_LISTS_IN_VLLM, "response_format", "structured_outputs"),
}  # fmt: skip
"""The parameters of a question that each value carries, as `question.PARAMETERS` names them."""

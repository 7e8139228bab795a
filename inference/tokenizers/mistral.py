"""Mistral's own tokenizer, from a `tekken.json`: the only importer of mistral-common. It never reads control tokens out of
text, and lays chats out without a template (mistral-common, `src/mistral_common/tokens/tokenizers/tekken.py`).
"""

from pathlib import Path
from typing import Any

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from inference.core.templates.errors import ChatTemplateError


class Mistral:
    def __init__(self, path: Path) -> None:
        """Raises ValueError."""
        try:
            self._tokenizer = MistralTokenizer.from_file(str(path))
        except (MistralCommonException, OSError, KeyError, TypeError, AssertionError) as error:
            raise ValueError(f"{path.name} is no tokenizer: {error}") from None
        tekken = self._tokenizer.instruct_tokenizer.tokenizer
        if not isinstance(tekken, Tekkenizer):
            raise ValueError(f"{path.name} is no tekken vocabulary")  # noqa: TRY004  (the file is wrong, not an argument)
        self._tekken = tekken
        self.control_ids = frozenset(tekken.special_ids)
        self.control = [tekken.id_to_piece(number) for number in self.control_ids]
        self.bos = tekken.id_to_piece(tekken.bos_id)

    def ids(self, text: str, whole: bool) -> list[int]:
        return self._tekken.encode(text, bos=whole, eos=False)

    def text(self, ids: list[int], skip_special_tokens: bool) -> str:
        policy = SpecialTokenPolicy.IGNORE if skip_special_tokens else SpecialTokenPolicy.KEEP
        return str(self._tekken.decode(ids, special_token_policy=policy))

    def chat(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], unfinished: bool) -> list[int]:
        """The token ids of a chat. Raises ChatTemplateError."""
        try:
            request: ChatCompletionRequest[Any] = ChatCompletionRequest.from_openai(
                messages, tools=tools or None, continue_final_message=unfinished
            )
            return list(self._tokenizer.encode_chat_completion(request).tokens)
        except (MistralCommonException, ValueError, TypeError, KeyError, AssertionError) as error:
            raise ChatTemplateError(" ".join(str(error).split())[:300]) from None

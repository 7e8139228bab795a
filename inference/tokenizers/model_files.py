"""Reads a model's tokenizer and chat templates from a folder. Only the worker process imports this: what such files do
can neither stop the gateway nor take its memory.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from inference.contract.errors import PermanentError
from inference.core.templates.chat_template import ChatTemplate
from inference.core.templates.control import ControlTokens, is_control
from inference.core.templates.errors import ChatTemplateError, ForgedTokenError
from inference.tokenizers.folder import TEKKEN, TOKENIZER

_SPECIALS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
CHATML = """\
{%- if tools %}
    {{- "<|im_start|>system\\nYou may call these functions, whose signatures are within <tools></tools>:\\n<tools>\\n" }}
    {%- for tool in tools %}{{ tool | tojson ~ "\\n" }}{% endfor %}
    {{- "</tools>\\nFor each call answer with a JSON object within <tool_call></tool_call>:\\n" }}
    {{- '<tool_call>\\n{"name": <function>, "arguments": <object of arguments>}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- "<|im_start|>" ~ message.role ~ "\\n" ~ message.content }}
    {%- for call in message.tool_calls or [] %}
        {{- "\\n<tool_call>\\n" ~ call.function | tojson ~ "\\n</tool_call>" }}
    {%- endfor %}
    {{- "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\\n" }}{% endif %}
"""
"""The layout that most chat models without a template of their own were trained on; with tools as Hermes models have them
(NousResearch/Hermes-Function-Calling, README.md).
"""


class ModelFilesError(PermanentError, ValueError):
    """The folder has no tokenizer that can be used. The message names the file and the remedy."""


class HuggingFace:
    """A `tokenizer.json`. It reads control tokens out of text, wherever they come from."""

    def __init__(self, path: Path, written: str) -> None:
        """`written` is what chat templates write. Raises ValueError."""
        try:
            tokenizer = Tokenizer.from_file(str(path))
            tokenizer.no_truncation()
            tokenizer.no_padding()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (a panic of its Rust code is no Exception)
            raise ValueError(f"{path.name} is no tokenizer: {str(error)[:200]}") from None
        self._encode, self._decode = tokenizer.encode, tokenizer.decode
        added = tokenizer.get_added_tokens_decoder()
        kept = {number: token for number, token in added.items() if is_control(token.content, token.special, written)}
        self.control_ids = frozenset(kept)
        self.control = [token.content for token in kept.values()]

    def ids(self, text: str, whole: bool) -> list[int]:
        """Token ids, with the tokens that the tokenizer itself adds if `whole`."""
        return list(self._encode(text, add_special_tokens=whole).ids)

    def text(self, ids: list[int], skip_special_tokens: bool) -> str:
        return str(self._decode(ids, skip_special_tokens=skip_special_tokens))


class ModelFiles:
    """`template` is None where the folder has none, `mistral` where a `tokenizer.json` serves."""

    def __init__(self, folder: Path, loaded: Callable[[], None] = lambda: None) -> None:
        """`loaded` is called once the vocabulary is there, before anything of it is used. Raises ModelFilesError."""
        config = _object(folder / "tokenizer_config.json")
        sources = _templates(folder, config)
        specials = {name: text for name in _SPECIALS if (text := _text(config.get(name)))}
        self.mistral = None
        try:
            if (folder / TOKENIZER).exists():
                self.vocabulary: Any = HuggingFace(folder / TOKENIZER, "".join(sources.values()))
            elif (folder / TEKKEN).exists():
                from inference.tokenizers.mistral import Mistral  # takes a second to import, and few models need it

                self.vocabulary = self.mistral = Mistral(folder / TEKKEN)
                specials.setdefault("bos_token", self.mistral.bos)
            else:
                raise ModelFilesError(f"it has no {TOKENIZER} and no {TEKKEN}: copy the model's file into it")
            self.control = ControlTokens([*self.vocabulary.control, "<|im_start|>", "<|im_end|>"])
        except ModelFilesError:
            raise
        except ValueError as error:
            raise ModelFilesError(f"{error}: copy it from the model again") from None
        loaded()
        try:
            self.template = self._template(sources.get("default"), specials)
            self.tool_template = self._template(sources.get("tool_use"), specials) or self.template
            self.chatml = ChatTemplate(CHATML, {}, self.control)
        except (ChatTemplateError, ForgedTokenError) as error:
            raise ModelFilesError(f"its chat template cannot be used: {error}") from None
        bos = specials.get("bos_token", "")
        self.bos_if_added = (
            bos if bos and self.vocabulary.ids("a", True)[:1] == self.vocabulary.ids(bos, False)[:1] else ""
        )

    def _template(self, source: str | None, specials: Mapping[str, str]) -> ChatTemplate | None:
        if source is None:
            return None
        template = ChatTemplate(source, specials, self.control)
        template.render([{"role": "user", "content": "Hello"}], [], begin_answer=True, extra={})
        return template


def _templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Sources by name. A file of its own goes before `tokenizer_config.json`, as in transformers."""
    sources: dict[str, str] = {}
    listed = config.get("chat_template")
    if isinstance(listed, str):
        sources["default"] = listed
    elif isinstance(listed, list):
        sources |= {str(entry.get("name")): str(entry.get("template")) for entry in listed if isinstance(entry, dict)}
    processor = _object(folder / "chat_template.json").get("chat_template")
    if isinstance(processor, str):
        sources["default"] = processor
    for name, path in (("default", "chat_template.jinja"), ("tool_use", "additional_chat_templates/tool_use.jinja")):
        if (folder / path).exists():
            sources[name] = _read(folder / path)
    return sources


def _text(token: Any) -> str:
    """The text of a token in `tokenizer_config.json`, which may be an object."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


def _object(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no such file."""
    if not path.exists():
        return {}
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise ModelFilesError(f"{path.name} is not JSON: {error}: copy it from the model again") from None
    if not isinstance(value, dict):
        raise ModelFilesError(f"{path.name} is no JSON object: copy it from the model again")
    return value


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFilesError(f"{path.name} cannot be read: {error}: copy it from the model again") from None

"""Makes texts of the token ids that a model answers with, before anything else reads its responses."""

import struct
from array import array
from collections.abc import Iterable

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.backends.port import Decode
from inference.backends.triton.plan import ARRAYS, COUNTED, Plan
from inference.contract.errors import PermanentError, RetryableError
from inference.core.backend_errors import FailedError

_length = struct.Struct("<I")
_count = struct.Struct("<i")


class TokenTexts:
    """Of one answer. Without `decode`, as for a request of the gateway's own, a text is empty and its tokens are counted."""

    def __init__(self, plan: Plan, decode: Decode | None, skip_special_tokens: bool) -> None:
        self._plan, self._decode, self._skip = plan, decode, skip_special_tokens
        self._ids = list[int]()  # those whose text is still to come, after those before them
        self._start = 0  # of those

    async def of(self, messages: Iterable[bytes]) -> list[bytes]:
        """Responses with text in the place of token ids, and with their number. Raises FailedError."""
        return [await self._with_text(raw) for raw in messages]

    async def _with_text(self, raw: bytes) -> bytes:
        try:
            message = pb.ModelStreamInferResponse.FromString(raw)
        except DecodeError:
            return raw  # who reads it says so
        response = message.infer_response
        for number, output in enumerate(response.outputs):
            if output.name == self._plan.ids and number < len(response.raw_output_contents):
                break
        else:
            return raw
        ids = array(ARRAYS.get(output.datatype, "i"))
        ids.frombytes(response.raw_output_contents[number])
        text = (await self._text(ids.tolist())).encode()
        response.raw_output_contents[number] = _length.pack(len(text)) + text
        output.datatype = "BYTES"
        response.outputs.add(name=COUNTED, datatype="INT32")
        response.raw_output_contents.append(_count.pack(len(ids)))
        return bytes(message.SerializeToString())

    async def _text(self, ids: list[int]) -> str:
        """What these add. A character whose bytes are in several tokens comes with the last of them."""
        if self._decode is None or not ids:
            return ""
        self._ids += ids
        try:
            text = await self._decode(self._ids, self._start, self._skip)
        except (PermanentError, RetryableError) as error:
            raise FailedError("the text of its token ids could not be made", "tokenizer", str(error)) from None
        if text is None:
            return ""
        self._ids = self._ids[self._start :]
        self._start = len(self._ids)
        return text

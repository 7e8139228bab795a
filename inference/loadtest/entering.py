"""Enters what a search has found as what a replica of a pool carries, through Weir's REST API (`--into-fleet`)."""

import http.client
from typing import Any
from urllib.parse import quote

import msgspec

from inference.contract.address import Url
from inference.contract.errors import PermanentError
from inference.loadtest.core.result import Result

TIMEOUT_S = 20.0
MAX_ANSWER_BYTES = 65_536


class EnteringError(PermanentError, ValueError):
    """Nothing was entered; the message says why."""


class FleetPool(msgspec.Struct, frozen=True):
    """Where a capacity is entered: the API of `weir`, of `pool`, on its GPU type or on `gpu`."""

    weir: Url
    token: str
    pool: str
    gpu: str = ""

    def check(self) -> None:
        """Before hours of measuring: whether it could be entered. Raises EnteringError."""
        self._put({"requests_per_s": 1.0, "dry_run": True})

    def enter(self, result: Result) -> str:
        """What was entered, in words. Raises EnteringError."""
        answer = self._put(capacity_of(result))
        if number := answer.get("proposal"):
            return f"not in force yet: another person has to approve it, at /changes/proposals/{number} of {self.weir.host}"
        return (
            f"entered: a replica of {answer['pool']} carries {answer['requests_per_s']:g} requests/s on {answer['gpu']}"
        )

    def _put(self, given: dict[str, Any]) -> dict[str, Any]:
        """It follows no redirect, so that no other server is shown the token."""
        url, kind = (
            self.weir,
            http.client.HTTPSConnection if self.weir.scheme == "https" else http.client.HTTPConnection,
        )
        path = f"{url.path.rstrip('/')}/api/v1/planning/capacities/{quote(self.pool, safe='')}"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection = kind(url.host, url.port, timeout=TIMEOUT_S)
        try:
            connection.request(
                "PUT", path, msgspec.json.encode(given | ({"gpu": self.gpu} if self.gpu else {})), headers
            )
            response = connection.getresponse()
            answer = msgspec.json.decode(response.read(MAX_ANSWER_BYTES) or b"null")
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise EnteringError(f"{url.host}:{url.port} does not answer as Weir does: {error}") from None
        finally:
            connection.close()
        if response.status not in (http.client.OK, http.client.ACCEPTED) or not isinstance(answer, dict):
            said = answer.get("detail") if isinstance(answer, dict) else None
            raise EnteringError(f"Weir answers {response.status} {said or response.reason}")
        return answer


def capacity_of(result: Result) -> dict[str, Any]:
    """The lower end of a confirmed search, which kept the objectives, with the mean lengths of its answers. Raises EnteringError."""
    search = result.search
    if not result.valid or search is None or not search.confirmed or search.requests_per_s is None:
        raise EnteringError("the highest rate is not confirmed, so it is not known what a replica carries")
    inputs, outputs = (result.tokens[name]["mean"] for name in ("input", "output"))
    took = result.latency_ms["e2e_from_sent"]
    lengths = {} if inputs is None or outputs is None else {"input_tokens": inputs, "output_tokens": outputs}
    # Little's law: L = λ W.
    batch = {} if took is None else {"batching_factor": round(search.requests_per_s * took["mean"] / 1000, 3)}
    objectives = "; ".join(result.settings.get("objective", ()))
    return {
        "requests_per_s": search.requests_per_s,
        "lower_bound": search.high is None,
        "note": f"weir bench, {result.began}: {result.url}, {objectives}"[:300],
        **lengths,
        **batch,
    }

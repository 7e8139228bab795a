"""What the launcher's API says of the local cluster, and takes: `deploy/local/cluster/api.py` serves it, and
`controlplane/fleet/clusters/local.py` calls it. Times are Unix ms.
"""

from typing import Literal

import msgspec

Error = Literal["conflict", "stale_leader", "invalid", "not_found", "unauthorized"]

POOLS_PATH = "/v1/pools"
LEADER_PATH = "/v1/leader"
MAX_REPLICAS = 64
"""Of one pool: what a request may ask for."""

ReplicaState = Literal["pending", "starting", "ready", "ending"]


class LocalReplica(msgspec.Struct, frozen=True, kw_only=True):
    """`pending` has no process yet; `problem` says why. `starting` is not ready, or no longer: it is started again where it ends."""

    name: str
    state: ReplicaState
    created_ms: int
    ready_ms: int | None = None  # since when, in a row
    restarts: int = 0
    removal_cost: int = 0  # the lowest goes first
    grpc: str = ""
    http: str = ""
    metrics: str = ""
    url: str = ""
    problem: str = ""


class LocalPool(msgspec.Struct, frozen=True, kw_only=True):
    """`token` changes with `wanted`. `set_by` is who set that count last: `launcher` at the start, `weir`, or any other word of a
    hand's request.
    """

    name: str
    wanted: int
    token: str
    set_by: str
    set_ms: int
    replicas: tuple[LocalReplica, ...]


class LocalState(msgspec.Struct, frozen=True, kw_only=True):
    """`version` changes with anything in it. At most `slots` replicas run at the same time, of all pools."""

    version: str
    generation: int  # of the last leader that wrote
    slots: int
    pools: tuple[LocalPool, ...]


class ScaleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without a `token` the count is set whatever it is; without a `generation` the request is a hand's, which no leader fences."""

    replicas: int
    token: str | None = None
    generation: int | None = None
    by: str = "hand"
    dry_run: bool = False


class ScaleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    before: int
    replicas: int
    token: str


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Writes of older generations are refused from now on."""

    generation: int


class RemovalRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The replicas that go first when the pool gets fewer. All others of the pool go after them."""

    replicas: tuple[str, ...]
    generation: int | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Why a request was not done. `conflict`: the token is not the present one. `stale_leader`: a later leader has written."""

    error: Error
    message: str

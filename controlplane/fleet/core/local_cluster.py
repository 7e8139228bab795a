"""What the launcher's API says of the local cluster, and takes: `deploy/local/cluster/api.py` serves it, and
`controlplane/fleet/clusters/local.py` calls it. Times are Unix ms.
"""

from typing import Annotated, Literal

import msgspec

POOLS_PATH = "/v1/pools"
MAX_REPLICAS = 64
"""Of one pool: what a request may ask for."""

ReplicaState = Literal["pending", "starting", "ready", "ending"]


class ReplicaAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """`grpc`, `http` and `metrics` are host:port of a Triton, `url` the base of OpenAI's API."""

    name: str
    grpc: str = ""
    http: str = ""
    metrics: str = ""
    url: str = ""


class LocalReplica(ReplicaAddresses, frozen=True, kw_only=True):
    """`pending` has no process yet; `problem` says why. `starting` is not ready, or no longer: it is started again where it ends."""

    state: ReplicaState
    created_ms: int
    restarts: int = 0
    problem: str = ""


class LocalPool(msgspec.Struct, frozen=True, kw_only=True):
    """`set_by` is who set the count last: `launcher` at the start, `weir`, or any other word of a hand's request."""

    name: str
    wanted: int
    set_by: str
    replicas: tuple[LocalReplica, ...]


class LocalState(msgspec.Struct, frozen=True, kw_only=True):
    """`version` changes with anything in it. At most `slots` replicas run at the same time, of all pools."""

    version: str
    slots: int
    pools: tuple[LocalPool, ...]


class ScaleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    replicas: Annotated[int, msgspec.Meta(ge=0, le=MAX_REPLICAS)]
    by: str = "hand"


class RemovalRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The replicas that go first when the pool gets fewer. All others of the pool go after them."""

    replicas: tuple[str, ...]


class Refusal(msgspec.Struct, frozen=True):
    """Why a request was not done, with the remedy."""

    message: str

"""What the pages and the page's text must say of each fault of the drill."""

from dataclasses import dataclass

from tests.support.deploy.outage import FAULTS, Fault

UP_FOR_S = 5
"""`WEIR_COMPONENT_UP_FOR_S` of the drill; the others are as short, so that it is over in minutes."""
SETTINGS = {
    "WEIR_OBSERVE_EVERY_S": "2",
    "WEIR_COMPONENT_PAGE_AFTER_S": "6",
    "WEIR_COMPONENT_TICKET_AFTER_S": "6",
    "WEIR_COMPONENT_UP_FOR_S": str(UP_FOR_S),
}


@dataclass(frozen=True, slots=True)
class Down:
    """`name`: how an incident's sentence begins. `row`: of the overview, where it is a row of the table and no card of a process."""

    component: str
    name: str
    row: str = ""


@dataclass(frozen=True, slots=True)
class Drill:
    """`says`: what stands between a component's name and the time since when. `cause` (a regular expression): what was answered when it
    was asked; `effect`: what follows from it. `resolves`: what ends the incident. `details`: of the overview's rows, by their id."""

    fault: Fault
    down: tuple[Down, ...]
    says: str
    cause: str
    effect: str
    resolves: str = f"resolves once it has been up for {UP_FOR_S} s"
    severity: str = "critical"
    details: tuple[tuple[str, str], ...] = ()
    measures: bool = True  # requests are measured during the fault
    complaints: tuple[str, ...] = ()  # that the browser's console may have of it


POOLS = ("chat-large-local", "chat-small-local")
GATEWAY = (Down("gateway", "Gateway"),)
NO_GATEWAY = "no request is served through it"
GONE = r"(no connection to|Cannot connect|Connect call failed|Error 111 connecting|Connection closed)"

DRILLS = {
    "one replica stopped": Drill(
        Fault("service.instance.id=chat-large-local-1", ("chat-large-local/chat-large-local-1",), "is down since"),
        (
            Down(
                "chat-large-local/chat-large-local-1",
                "chat-large-local-1 of pool chat-large-local",
                "chat-large-localchat-large-local-1",
            ),
        ),
        says="is down",
        cause=GONE,
        effect="the other replicas of its pool take its requests",
        severity="warning",
        details=(("poolchat-large-local", "1 of 2 replicas up"),),
    ),
    "all replicas gone": Drill(
        FAULTS["replicas_gone"],
        tuple(Down(f"pool:{pool}", f"pool {pool}", f"pool{pool}") for pool in POOLS),
        says="has 0 of 2 replicas up",
        cause=GONE,
        effect="requests that only this pool can answer fail",
        resolves=f"resolves once a replica has been up for {UP_FOR_S} s",
        details=tuple((f"pool{pool}", "0 of 2 replicas up") for pool in POOLS),
    ),
    "Redis gone": Drill(
        Fault("redis-server", ("redis",), "Redis is down since"),
        (Down("redis", "Redis"),),
        says="is down",
        cause=GONE,
        effect="requests are served without the cache",
        complaints=("WebSocket connection",),  # pages ask by themselves, every 10 s
        severity="warning",
    ),
    "telemetry gone": Drill(
        FAULTS["telemetry_down"],
        (Down("telemetry", "Telemetry"),),
        says="is down",
        cause=GONE,
        effect="requests are served, but not measured, and objectives cannot be judged",
        measures=False,
    ),
    "gateway gone": Drill(FAULTS["gateway_down"], GATEWAY, says="is down", cause=GONE, effect=NO_GATEWAY),
    "gateway hung": Drill(
        FAULTS["gateway_hang"], GATEWAY, says="has not answered", cause=r"no answer within 2 s", effect=NO_GATEWAY
    ),
}

SMALL_DOWN = Drill(
    Fault("service.instance.id=chat-small-local-", ("pool:chat-small-local",), "replicas up since"),
    (Down("pool:chat-small-local", "pool chat-small-local", "poolchat-small-local"),),
    says="has 0 of 2 replicas up",
    cause=GONE,
    effect="requests that only this pool can answer fail",
    resolves=f"resolves once a replica has been up for {UP_FOR_S} s",
)
FAILED_OVER = Drill(
    SMALL_DOWN.fault,
    (Down("policy:failover:chat-small", "model chat-small"),),
    says="is failed over",
    cause="small-down sends the requests of chat-small-local to chat-small-spare, since none of chat-small-local could serve",
    effect="it ends by itself once what began it is over",
    resolves=f"resolves once the failover has been over for {UP_FOR_S} s",
    severity="warning",
)
BAD_CANARY = Drill(
    Fault("", ("policy:canary:chat-small",), ""),
    (Down("policy:canary:chat-small", "model chat-small"),),
    says="has a canary that was not promoted",
    cause=r"chat-small-next is rolled back after (\d+) requests: it fails more often.*; \1 of them failed, and 0 of the baseline's \d+",
    effect="a candidate that is rolled back gets no more requests",
    resolves=f"resolves once the canary's policy has been replaced or retired for {UP_FOR_S} s",
    severity="warning",
)

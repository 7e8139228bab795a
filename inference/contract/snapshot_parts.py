"""The parts of the policy snapshot that owners enter."""

from typing import Annotated, Literal

from msgspec import Meta

from inference.contract.credentials import Header
from inference.contract.failure_rules import EJECTION, RETRIES, Ejection, Retries
from inference.contract.lenient import Exact
from inference.contract.rules import Amount, AtLeastOne, Count, Large, Priority, Route
from inference.contract.tensor_mapping import TensorMapping

Protocol = Literal["triton", "openai"]
Signature = Literal["weir", "auto", "vllm", "trtllm_ensemble", "trtllm_bls", "trtllm_llmapi", "mapping"]
Server = Literal["auto", "vllm", "sglang", "llamacpp", "trtllm", "dynamo", "other", "unlisted"]
ToolParser = Literal["", "hermes", "llama3_json", "mistral"]
ReasoningParser = Literal["", "think"]
ReasoningField = Literal["reasoning_content", "reasoning"]
UnknownParameters = Literal["pass", "drop", "refuse"]


class Endpoint(Exact, frozen=True):
    """One replica of a pool: `grpc` is host:port of Triton's gRPC service, `url` the base of OpenAI's API, such as
    `http://10.0.0.7:8000/v1`. `metrics` is the URL of its Prometheus page; empty for none.
    """

    replica: str
    grpc: str = ""
    url: str = ""
    metrics: str = ""
    draining: bool = False  # it gets no new request, and finishes those it has


class Tls(Exact, frozen=True):
    """How the servers of a pool are trusted. `enabled` is for gRPC: a URL's scheme says it for the others. `ca` names a PEM
    file beside the credentials; empty trusts what the system trusts. `server_name` is the name in their certificate, where
    it is not the address. `certificate` names a PEM file with a certificate and its key, by which they know the gateway.
    """

    enabled: bool = False
    ca: str = ""
    server_name: str = ""
    certificate: str = ""


class WarmUp(Exact, frozen=True):
    """What each gateway sends to a new replica before the replica gets users' requests: `requests` of them, one after the
    other, have to succeed; 0 sends none. After `within_s` from its readiness it gets requests all the same.
    """

    requests: int = 0
    prompt: str = "Say yes."
    max_tokens: int = 8
    within_s: int = 60


WARM_UP_BOUNDS = {"requests": (0, 100), "max_tokens": (1, 1024), "within_s": (1, 3600)}
"""The least and the most of each number of a warm-up."""


class Price(Exact, frozen=True):
    """In USD, from `from_ms` until before `until_ms` (Unix time; 0 is no bound). None: as the other tokens of its kind, and an
    image as its tokens alone.
    """

    usd_per_1k_prompt_tokens: Amount
    usd_per_1k_output_tokens: Amount
    usd_per_1k_cached_tokens: Amount | None = None  # of the prompt, where the server found them in its cache
    usd_per_1k_audio_tokens: Amount | None = None  # of the prompt
    usd_per_image: Amount | None = None  # beside its tokens
    from_ms: Large = 0
    until_ms: Large = 0


class Pool(Exact, frozen=True):
    """The replicas of a variant in one region. `model_name` is what its servers call the model. `credential` names the
    secret that its servers want; the gateway has the secret (`inference/backends/credentials.py`).
    """

    name: str
    variant: str
    region: str
    model_name: str
    model_version: str
    endpoints: tuple[Endpoint, ...] = ()  # apart from the pool in the document
    max_concurrency: AtLeastOne = 64  # requests in flight over all replicas, per gateway process
    replica_concurrency: Count = 0  # requests in flight at one replica, per gateway process; 0 is no limit
    max_queue: Count = 256  # requests that wait for a place; more get 429
    protocol: Protocol = "triton"
    signature: Signature = "weir"  # of a Triton: the tensors of its model
    mapping: TensorMapping | None = None  # for the signature `mapping`
    server: Server = "auto"  # behind OpenAI's API
    credential: str = ""  # sent as bearer token
    headers: tuple[Header, ...] = ()  # of each call of a server with OpenAI's API
    proxy: str = ""  # URL of an HTTP proxy, through which servers with https URLs are called
    tls: Tls = Tls()
    max_output_default: Count = 0  # output tokens where the client names none; 0 leaves it to the server
    warm_up: WarmUp = WarmUp()
    ejection: Ejection = EJECTION
    retries: Retries = RETRIES
    prices: tuple[Price, ...] = ()  # of what it serves, the first that holds counts; none: unknown
    salt_prefix_cache: bool = False  # of its servers, so that no tenant meets the prefixes of another
    unknown_parameters: UnknownParameters = "pass"  # those that its servers do not list; Tritons cannot be passed any
    keep_error_texts: bool = (
        False  # what its servers say of a failure goes into logs and spans; it may repeat the prompt
    )


class SemanticRule(Exact, frozen=True):
    """Whether the answer of a similar request may be given. In `shadow` it is only compared with the request's own; `on` serves where this
    has shown that at most `wrong_percent` of what is served is wrong. `embedder` is the model that makes vectors of texts.
    """

    mode: Literal["off", "shadow", "on"] = "off"
    embedder: str = ""
    wrong_percent: Annotated[float, Meta(gt=0, lt=50)] = 1.0
    other_words: bool = (
        False  # texts with words that the verifier knows nothing of are left to the evidence, in place of refused
    )
    timely: bool = False  # texts whose answer depends on when, or by whom, it was asked are looked up too
    across_tenants: bool = False  # where the rule's scope is `all`: similar answers are shared too
    judge: str = ""  # the model that has to agree to texts in other words; named, they are candidates where it does
    judge_ms: Count = 500  # over it, it does not
    embed_ms: Count = 50  # while something may be served: over it, the request is a miss


class CacheRule(Exact, frozen=True):
    """`deterministic` caches answers at temperature 0 or with a seed, `always` all answers, `never` none.

    With `scope` `tenant` each tenant has answers of its own. With `all` they are shared, which lets a tenant learn by
    timing what others have sent.
    """

    mode: Literal["deterministic", "always", "never"] = "deterministic"
    ttl_s: Count = 3600
    ttls_s: dict[
        str, Count
    ] = {}  # of an operation, and of `tag:` with a tag: the shortest that a request matches counts
    stales_s: dict[str, Count] = {}  # the same names: how long an answer may be given after that, while it is made anew
    coalesce: bool = True  # identical requests in flight at the same time share one inference
    scope: Literal["tenant", "all"] = "tenant"
    purges: Count = 0  # how often its answers were purged: none from before the last time is met again
    version_purges: Count = 0  # the same of its prompt version alone
    semantic: SemanticRule = SemanticRule()


class Model(Exact, frozen=True):
    """What clients ask for. `prompt_version` is part of the cache key: change it to start with an empty cache."""

    name: str
    routes: tuple[Route, ...]
    tokenizer: str = "tekken"  # one of TOKENIZERS, or a folder under WEIR_TOKENIZERS_DIR
    max_prompt_tokens: Count = 32_768
    max_output_tokens: Count = 4_096
    prompt_version: str = "1"
    cache: CacheRule = CacheRule()
    template: Literal["auto", "chatml"] = "auto"  # `auto` takes the tokenizer's, and ChatML where it has none
    tool_parser: ToolParser = ""  # for servers that answer plain text; empty leaves tool calls to the server
    reasoning_parser: ReasoningParser = ""  # the same for reasoning
    reasoning_field: ReasoningField = "reasoning_content"  # what clients get reasoning as
    fallbacks: tuple[str, ...] = ()  # pools that serve, in this order, while no pool of the routes can
    hedge_ms: Count = 0  # a second replica is tried after so long without a token; 0 tries none
    hedge_prompt_tokens: Count = 2048  # of longer prompts none is
    hedge_output_tokens: Count = 256  # nor of requests that may have longer answers
    max_context_tokens: Count = 0  # prompt and answer together; 0 is what the server says
    regions: tuple[str, ...] = ()  # the only ones where it may be served; none is all
    image_hosts: tuple[str, ...] = ()  # where its servers may fetch images: names, or `*.` and a name; none is nowhere


class Tier(Exact, frozen=True):
    """`priority` 1 is served first, in the gateway's queue within the tier's share and in Triton's. Limits are those of each
    tenant, over all gateways; 0 means no limit.
    """

    name: str
    priority: Priority = 2
    requests_per_minute: Count = 0
    tokens_per_minute: Count = 0  # prompt and output
    weight: AtLeastOne = 1  # its share while requests of several tiers wait, beside tiers of the same priority
    max_in_flight: Count = 0
    reserved_percent: Count = 0  # of a pool's places, which worse tiers leave free for it


class Key(Exact, frozen=True):
    """An API key with limits of its own, below those of its tenant's tier (0 means no limit), or one that may say where its
    requests come from.
    """

    sha256: str  # hex
    requests_per_minute: Count = 0
    tokens_per_minute: Count = 0
    max_in_flight: Count = 0
    names_region: bool = False  # `x-weir-region` of its requests counts
    models: tuple[str, ...] = ()  # the only ones that it may use and list; none is all
    expires_ms: Large = 0  # Unix time from which on it is refused; 0 is never
    usd_per_day: Amount = 0  # what its requests may cost, in UTC
    usd_per_month: Amount = 0


class Tenant(Exact, frozen=True):
    """`key_sha256` are hex digests of the API keys with nothing of their own, `keys` are the others. The keys themselves
    are never stored.
    """

    name: str
    tier: str
    key_sha256: tuple[str, ...]
    keys: tuple[Key, ...] = ()
    regions: tuple[str, ...] = ()  # the only ones where its requests may be served; none is all
    cache_purges: Count = 0  # how often its cached answers were purged
    tiers: tuple[str, ...] = ()  # that tokens of issuers may name beside its own
    audits_texts: bool = False  # keyed hashes of its prompts and answers are kept


Pattern = Literal["card", "key", "mail"]
SigningAlgorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""All of them with a public key: whoever can check a token cannot make one."""


class Issuer(Exact, frozen=True):
    """Whose JSON Web Tokens are taken beside keys. `issuer` and `audience` have to be in each token; its claims of these names say for
    which tenant it is, and, where they are named, in which tier and by whom. `jwks_url` has the public keys.
    """

    name: str
    issuer: str
    audience: str
    jwks_url: str
    tenant_claim: str = "tenant"
    tier_claim: str = ""
    user_claim: str = ""
    algorithms: tuple[SigningAlgorithm, ...] = ("RS256", "ES256", "EdDSA")
    tenants: tuple[str, ...] = ()  # that its tokens may name
    all_tenants: bool = False  # they may name any


class StageTimeouts(Exact, frozen=True):
    """How long each stage may take, ms. The gateway ends a stage that takes longer with an error that names it. It skips
    the cache instead.
    """

    cache_ms: Count = 25
    tokenizer_ms: Count = 500
    queue_ms: Count = 10_000
    connect_ms: Count = 1_000  # to a model server, TLS included
    first_token_ms: Count = 60_000
    next_token_ms: Count = 60_000  # from each to the one after it, of an answer that somebody waits for
    model_ms: Count = 300_000
    egress_ms: Count = 30_000


class TimeoutRule(Exact, frozen=True):
    """Timeouts of the requests for a model, of a tier, or of a tier for a model, ms. Empty is every one, and 0 leaves a timeout as
    it is without the rule. `name` is for messages alone.
    """

    name: str
    model: str = ""
    tier: str = ""
    cache_ms: Count = 0
    tokenizer_ms: Count = 0
    queue_ms: Count = 0
    connect_ms: Count = 0
    first_token_ms: Count = 0
    next_token_ms: Count = 0
    model_ms: Count = 0
    egress_ms: Count = 0


class GuardRule(Exact, frozen=True):
    """What a tenant wants of its requests, of the answers to them, or of both. A rule is one of three: texts without `patterns`, requests
    of at most `max_chars`, or texts that the moderation at `url` does not flag. In `tiers`, empty for every one, it holds.
    """

    name: str  # `tenant/rule`: what clients, metrics and traces see
    tenant: str
    kind: Literal["patterns", "length", "moderation"]
    action: Literal["refuse", "mask", "report"] = "refuse"
    tiers: tuple[str, ...] = ()
    requests: bool = True
    answers: bool = False
    patterns: tuple[Pattern, ...] = ()
    max_chars: Count = 0
    url: str = ""  # with OpenAI's `/v1/moderations`
    credential: str = ""  # names the secret that it wants as bearer token
    timeout_ms: Count = 1_000
    is_open: bool = False  # where the moderation fails, the text passes

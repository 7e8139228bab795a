"""Reads the parts of the policy snapshot one by one, so that a bad part spoils no other."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, NamedTuple, TypeVar

import msgspec

from inference.contract import lenient
from inference.contract.address import is_loopback, parse_address, parse_base_url, parse_proxy, parse_url
from inference.contract.credentials import check_header
from inference.contract.errors import PermanentError
from inference.contract.lenient import UNREADABLE
from inference.contract.rules import NO_OVERLAY, Degradation, Overlay, Route, RouteRule
from inference.contract.snapshot_parts import (
    WARM_UP_BOUNDS,
    Endpoint,
    GuardRule,
    Issuer,
    Model,
    Pool,
    Tenant,
    Tier,
    TimeoutRule,
    WarmUp,
)
from inference.contract.tensor_mapping import check_mapping

TOKENIZERS = ("tekken", "server", "estimate")
"""Tokenizers that need no folder: a vocabulary that comes with the gateway, the server's own count, bytes / 4."""

Kind = Literal["model", "pool", "tier", "tenant", "rule", "overlay", "timeouts", "issuer", "guard"]
Raws = Iterable[msgspec.Raw]
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_Part = TypeVar("_Part", Model, Pool, Tier, Tenant, RouteRule, TimeoutRule, Issuer, GuardRule)


class SnapshotError(PermanentError, ValueError):
    """The document cannot be obeyed. The message names the field, the value and the remedy."""


class Fault(NamedTuple):
    """A part of the document that cannot be obeyed, and why."""

    kind: Kind
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}: {self.reason}"


class _Named(msgspec.Struct):
    name: str


class Reader:
    """Reads parts, and collects the faults of those that cannot be obeyed and the fields that this gateway does not know.
    `link_local` allows URLs of link-local hosts.
    """

    def __init__(self, unknown: Iterable[str], link_local: bool) -> None:
        self.faults: list[Fault] = []
        self.unknown = list(unknown)
        self._link_local = link_local

    def parts(self, kind: Kind, raws: Raws, type_: type[_Part], checked: Callable[[_Part], _Part]) -> dict[str, _Part]:
        """The parts that can be obeyed, by name."""
        parts: dict[str, _Part] = {}
        for number, raw in enumerate(raws):
            try:
                part, unknown = lenient.decode(raw, type_)
                if part.name in parts:
                    raise SnapshotError("there are two of this name: rename or remove one")
                self.unknown += [f"{kind}.{path}" for path in unknown]
                parts[part.name] = checked(part)
            except (msgspec.DecodeError, SnapshotError) as error:
                self._fault(kind, _name(raw) or f"number {number + 1}", str(error))
        return parts

    def pool(self, pool: Pool, endpoints: Mapping[str, Raws]) -> Pool:
        """The pool with its endpoints, which the document has apart.
        Left out are replicas whose address is none, metrics pages whose URL is none, and a warm-up without bounds. Raises
        SnapshotError.
        """
        _check_name("credential", pool.credential)
        _check_name("tls.ca", pool.tls.ca)
        _check_name("tls.certificate", pool.tls.certificate)
        _check_way(pool)
        if pool.signature == "mapping":
            if pool.mapping is None:
                raise SnapshotError(
                    "signature 'mapping' needs `mapping`: name the model's tensors, or choose another signature"
                )
            try:
                check_mapping(pool.mapping)
            except ValueError as error:
                raise SnapshotError(str(error)) from None
        known = (
            self._endpoint(pool, endpoint) for endpoint in self._endpoints(pool.name, endpoints.get(pool.name, ()))
        )
        return msgspec.structs.replace(
            pool,
            endpoints=tuple(endpoint for endpoint in known if endpoint),
            warm_up=self._warm_up(pool.name, pool.warm_up),
        )

    def model(self, model: Model, pools: Mapping[str, Pool]) -> Model:
        """The model without routes and fallbacks to unknown pools. Raises SnapshotError."""
        if not is_name(model.tokenizer):
            raise SnapshotError(
                f"tokenizer {model.tokenizer!r} is not a name: write {', '.join(TOKENIZERS)}, or a folder of tokenizers"
            )
        if not any(route.pool in pools for route in model.routes):
            lost = ", ".join(repr(route.pool) for route in model.routes)
            what = f"its routes lead to {lost}, which `pools` does not have" if lost else "no route"
            raise SnapshotError(f"{what}: add a route to one of the pools")
        routes, fallbacks = self._leads("model", model.name, model.routes, model.fallbacks, pools)
        for name in (*(route.pool for route in routes), *fallbacks):
            mapping = pools[name].mapping
            if mapping is not None and mapping.has_ids and model.tokenizer in TOKENIZERS:
                raise SnapshotError(f"pool {name!r} takes token ids: enter the folder of the model's own tokenizer")
        return msgspec.structs.replace(model, routes=routes, fallbacks=fallbacks)

    def rule(self, rule: RouteRule, models: Collection[str], pools: Collection[str]) -> RouteRule:
        """The rule without routes and fallbacks to unknown pools. Raises SnapshotError."""
        if rule.model not in models:
            raise SnapshotError(f"model {rule.model!r} is not one that is served: choose another")
        routes, fallbacks = self._leads("rule", rule.name, rule.routes, rule.fallbacks, pools)
        return msgspec.structs.replace(rule, routes=routes, fallbacks=fallbacks)

    def overlay(self, raw: msgspec.Raw, models: Collection[str], pools: Collection[str]) -> Overlay:
        """The overlay without what names unknown models and pools; none where it cannot be read."""
        if not raw:
            return NO_OVERLAY
        try:
            overlay, unknown = lenient.decode(raw, Overlay)
        except msgspec.DecodeError as error:
            self._fault("overlay", "overlay", str(error))
            return NO_OVERLAY
        self.unknown += [f"overlay.{path}" for path in unknown]
        routes = {
            model: known
            for model, given in overlay.routes.items()
            if (known := self._leads("overlay", model, given, (), pools)[0])
        }
        instead = {
            pool: others
            for pool, given in overlay.instead.items()
            if (others := self._leads("overlay", pool, (), given, pools)[1])
        }
        canary = {
            model: {pool: percent for pool, percent in weights.items() if pool in pools}
            for model, weights in overlay.canary.items()
        }
        degradation = tuple(step for step in overlay.degradation if self._step(step, models, pools))
        return msgspec.structs.replace(overlay, routes=routes, instead=instead, canary=canary, degradation=degradation)

    def _fault(self, kind: Kind, name: str, reason: str) -> None:
        self.faults.append(Fault(kind, name, reason))

    def _endpoints(self, pool: str, raws: Raws) -> Iterable[Endpoint]:
        for number, raw in enumerate(raws):
            try:
                endpoint, unknown = lenient.decode(raw, Endpoint)
            except msgspec.DecodeError as error:
                self._fault("pool", pool, f"replica number {number + 1}: {error}")
                continue
            self.unknown += [f"endpoint.{path}" for path in unknown]
            yield endpoint

    def _endpoint(self, pool: Pool, endpoint: Endpoint) -> Endpoint | None:
        try:
            if pool.protocol == "openai":
                parse_base_url(endpoint.url, self._link_local)
            else:
                parse_address(endpoint.grpc)
        except ValueError as error:
            self._fault("pool", pool.name, f"replica {endpoint.replica!r}: {error}")
            return None
        try:
            if endpoint.metrics:
                parse_url(endpoint.metrics, self._link_local)
        except ValueError as error:
            self._fault("pool", pool.name, f"replica {endpoint.replica!r}, metrics: {error}")
            return msgspec.structs.replace(endpoint, metrics="")
        return endpoint

    def _warm_up(self, pool: str, warm_up: WarmUp) -> WarmUp:
        for name, (least, most) in WARM_UP_BOUNDS.items():
            value = getattr(warm_up, name)
            if not least <= value <= most:
                self._fault("pool", pool, f"warm_up.{name} {value} is not from {least:,} to {most:,}: none is sent")
                return WarmUp()
        return warm_up

    def _leads(
        self, kind: Kind, name: str, routes: tuple[Route, ...], fallbacks: tuple[str, ...], pools: Collection[str]
    ) -> tuple[tuple[Route, ...], tuple[str, ...]]:
        """The routes and fallbacks that lead to one of `pools`."""
        for route in routes:
            if route.pool not in pools:
                self._fault(kind, name, f"a route leads to pool {route.pool!r}, which `pools` does not have")
        for pool in fallbacks:
            if pool not in pools:
                self._fault(kind, name, f"fallback {pool!r} is a pool that `pools` does not have")
        return tuple(it for it in routes if it.pool in pools), tuple(it for it in fallbacks if it in pools)

    def _step(self, step: Degradation, models: Collection[str], pools: Collection[str]) -> bool:
        """Whether the step can be obeyed."""
        if step.model not in models:
            self._fault("overlay", step.name, f"model {step.model!r} is not one that is served")
            return False
        if step.pool and step.pool not in pools:
            self._fault("overlay", step.name, f"pool {step.pool!r} is one that `pools` does not have")
            return False
        return True


def check_tenant(tenant: Tenant, tiers: Collection[str]) -> Tenant:
    """Raises SnapshotError."""
    if tenant.tier not in tiers:
        raise SnapshotError(f"tier {tenant.tier!r} is not one of {', '.join(sorted(tiers)) or 'none'}: choose another")
    return tenant


def check_timeouts(rule: TimeoutRule, models: Collection[str], tiers: Collection[str]) -> TimeoutRule:
    """Raises SnapshotError."""
    for what, name, known in (("model", rule.model, models), ("tier", rule.tier, tiers)):
        if name and name not in known:
            raise SnapshotError(f"{what} {name!r} is not one of {', '.join(sorted(known)) or 'none'}: choose another")
    return rule


def check_issuer(issuer: Issuer, link_local: bool) -> Issuer:
    """Raises SnapshotError."""
    for what in ("issuer", "audience", "tenant_claim", "algorithms"):
        if not getattr(issuer, what):
            raise SnapshotError(f"{what} is empty: enter what its tokens have")
    try:
        check_trusted_url(issuer.jwks_url, link_local)
    except ValueError as error:
        raise SnapshotError(str(error)) from None
    return issuer


def check_guard(rule: GuardRule, tenants: Collection[str], link_local: bool) -> GuardRule:
    """Raises SnapshotError."""
    if rule.tenant not in tenants or not rule.name.startswith(f"{rule.tenant}/"):
        raise SnapshotError(f"its name does not begin with a tenant of the document, which is {rule.tenant!r}, and '/'")
    if rule.kind == "patterns" and not rule.patterns:
        raise SnapshotError("it names no pattern: choose one or more")
    if rule.kind == "length" and not rule.max_chars:
        raise SnapshotError("it names no length: enter how many characters a request may have")
    if rule.kind != "patterns" and rule.action == "mask":
        raise SnapshotError(f"a rule about {rule.kind} knows no part to mask: choose to refuse or to report")
    if rule.kind == "moderation":
        try:
            check_trusted_url(rule.url, link_local)
        except ValueError as error:
            raise SnapshotError(str(error)) from None
        _check_name("credential", rule.credential)
    return rule


def check_trusted_url(text: str, link_local: bool) -> None:
    """Raises ValueError with the value and the remedy. What is read there decides, and what is sent there is secret."""
    url = parse_url(text, link_local, with_query=True)
    if url.scheme != "https" and not is_loopback(url.host):
        raise ValueError(f"{text!r} is plain HTTP, which can be read and changed on the way: use https")


def is_name(text: str) -> bool:
    """Whether `text` is the name of a file or folder, and no path."""
    return _NAME.fullmatch(text) is not None


def _check_name(field: str, name: str) -> None:
    """Raises SnapshotError."""
    if name and not is_name(name):
        raise SnapshotError(
            f"{field} {name!r} is not a name: use letters, digits, '.', '-' and '_', such as 'hosted-api'"
        )


def _check_way(pool: Pool) -> None:
    """How its servers are called. Raises SnapshotError."""
    try:
        for header in pool.headers:
            check_header(header)
            _check_name(f"the secret of header {header.name}", header.secret)
        if pool.proxy:
            parse_proxy(pool.proxy)
    except ValueError as error:
        raise SnapshotError(str(error)) from None


def _name(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=_Named).name
    except UNREADABLE:
        return ""

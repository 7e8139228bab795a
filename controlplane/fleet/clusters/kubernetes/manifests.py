"""Applies objects by server-side apply, and says before what that changes.

https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from controlplane.fleet.clusters.errors import InvalidError, SecondOwnerError
from controlplane.fleet.clusters.kubernetes import fence, paths
from controlplane.fleet.clusters.kubernetes.client import APPLY, Api, DeniedError, FieldConflictError, MissingError
from controlplane.fleet.clusters.port import Difference, Manifest

_OF_SERVER = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")
_MANAGER = re.compile(r'conflict with "([^"]+)"')
_KEYS = ("name", "containerPort", "port", "mountPath", "type", "topologyKey", "key")


Fields = tuple[tuple[str, str], ...]
"""Paths and managers of fields."""


class _Kind(msgspec.Struct, frozen=True):
    kind: str
    name: str
    namespaced: bool = False


class _Kinds(msgspec.Struct, frozen=True):
    resources: tuple[_Kind, ...] = ()


class _Place:
    """Where an object is, in the API of the server that it is applied to."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._kinds: dict[str, dict[str, _Kind]] = {}

    def of(self, manifest: Manifest) -> str:
        """The path of the object. Raises InvalidError where it cannot be one of this namespace."""
        version, kind = str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
        name = (manifest.get("metadata") or {}).get("name")
        if not (version and kind and name):
            raise InvalidError("A manifest has no apiVersion, kind or metadata.name: write all three.")
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if root not in self._kinds:
            try:
                listed = self._api.request("GET", root, _Kinds)
            except MissingError as error:
                raise InvalidError(
                    f"{kind} “{name}”: this cluster has no {version}. Write a version that it has."
                ) from error
            self._kinds[root] = {entry.kind: entry for entry in listed.resources if "/" not in entry.name}
        entry = self._kinds[root].get(kind)
        if entry is None:
            raise InvalidError(f"{kind} “{name}”: this cluster has no such kind in {version}. Check its spelling.")
        namespace = manifest["metadata"].get("namespace", self._namespace)
        if not entry.namespaced or namespace != self._namespace:
            raise InvalidError(
                f"{kind} “{name}” is not in namespace {self._namespace}, which is all that Weir changes. Apply it yourself."
            )
        return f"{root}/namespaces/{namespace}/{entry.name}/{name}"


def apply(
    api: Api, namespace: str, manifests: Sequence[Manifest], *, dry_run: bool, adopt: bool = False
) -> list[Difference]:
    """Apply each in its order. Unless all of them can be applied, none is: each is tried first without effect.

    The count of a Deployment that exists stays, as policies set it. Raises SecondOwnerError and other ClusterErrors; a dry run
    shows what is refused beside the rest.
    """
    place = _Place(api, namespace)
    entries = [(place.of(manifest), manifest) for manifest in manifests]
    differences = [_tried(api, path, manifest, take=dry_run or adopt) for path, manifest in entries]
    if not dry_run:
        if refused := [difference.problem for difference in differences if difference.action == "refused"]:
            raise InvalidError(" ".join(refused))
        for (path, manifest), difference in zip(entries, differences, strict=True):
            if difference.action != "none":
                _write(api, path, _without_count(manifest), force=adopt)
            if difference.action == "create":
                _set_first_count(api, path, manifest)
    return differences


def _tried(api: Api, path: str, manifest: Manifest, *, take: bool) -> Difference:
    """What applying would change, of the object at one moment: others may change it between two calls."""
    for tries_left in reversed(range(fence.TRIES)):
        live, warnings = api.find(path, dict[str, Any]), list[str]()
        try:
            result, taken = _applied_dry(api, path, manifest, warnings, take=take)
        except MissingError:
            raise
        except InvalidError as error:
            return _refused(manifest, error, exists=live is not None)
        if live is None or _version(live) == _version(result) or not tries_left:
            warned = tuple(dict.fromkeys(warnings))
            return msgspec.structs.replace(_difference(manifest, live, result, taken), warnings=warned)
    raise AssertionError


def _refused(manifest: Manifest, error: InvalidError, *, exists: bool) -> Difference:
    kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
    reason = f"{kind} “{name}”: {str(error).rstrip('.')}."
    if isinstance(error, DeniedError):
        return Difference(kind, name, "refused", problem=reason)
    remedy = (
        f"What is there cannot be changed into it: give the workload another name, or delete {kind} “{name}” first, "
        "which ends what it runs."
        if exists
        else "Correct the workload."
    )
    return Difference(kind, name, "refused", problem=f"{reason} {remedy}")


def _version(live: Manifest) -> Any:
    return live["metadata"].get("resourceVersion")


def _applied_dry(
    api: Api, path: str, manifest: Manifest, warnings: list[str], *, take: bool
) -> tuple[dict[str, Any], Fields]:
    applied = _without_count(manifest)
    try:
        return _write(api, path, applied, force=False, dry_run=True, warnings=warnings), ()
    except FieldConflictError as conflict:
        taken = tuple((field, _manager(text)) for field, text in conflict.fields)
        if not take:
            fields = "; ".join(f"{field} of {manager}" for field, manager in taken)
            raise SecondOwnerError(
                f"{manifest['kind']} “{manifest['metadata']['name']}” has fields that somebody else manages: {fields}. "
                "Adopt it, or leave these fields out."
            ) from conflict
        return _write(api, path, applied, force=True, dry_run=True, warnings=warnings), taken


def _difference(manifest: Manifest, live: dict[str, Any] | None, result: dict[str, Any], taken: Fields) -> Difference:
    kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
    if live is None:
        return Difference(kind, name, "create", tuple(_changes({}, _bare(manifest))), taken)
    changes = tuple(_changes(_bare(live), _bare(result)))
    managers = {field.get("manager") for field in live["metadata"].get("managedFields", ())}
    stays = tuple(entry for entry in _containers(result) if entry not in _containers(manifest))
    if paths.STACK_MANAGER not in managers:
        return Difference(kind, name, "adopt", changes, taken, stays=stays)
    return Difference(kind, name, "change" if changes or taken else "none", changes, taken, stays=stays)


def _containers(workload: Manifest) -> list[str]:
    pod = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    return [str(entry.get("name", "")) for entry in pod.get("containers") or ()]


def _write(
    api: Api, path: str, manifest: Manifest, *, force: bool, dry_run: bool = False, warnings: list[str] | None = None
) -> dict[str, Any]:
    query = {"fieldManager": paths.STACK_MANAGER, "force": str(force).lower()} | ({"dryRun": "All"} if dry_run else {})
    return api.request("PATCH", path, dict[str, Any], query=query, body=manifest, content_type=APPLY, warnings=warnings)


def _without_count(manifest: Manifest) -> Manifest:
    """A Deployment without its count: who applies it would own it, and who then leaves it out would set it to 1."""
    if manifest["kind"] != "Deployment" or "replicas" not in manifest.get("spec", {}):
        return manifest
    return {**manifest, "spec": {key: value for key, value in manifest["spec"].items() if key != "replicas"}}


def _set_first_count(api: Api, path: str, manifest: Manifest) -> None:
    replicas = manifest.get("spec", {}).get("replicas", 1) if manifest["kind"] == "Deployment" else 1
    if replicas == 1:
        return
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": manifest["metadata"]["name"]},
        "spec": {"replicas": replicas},
    }
    query = {"fieldManager": paths.MANAGER, "force": "true"}
    fence.persist(
        lambda: None,
        lambda _: api.request("PATCH", f"{path}/scale", fence.Head, query=query, body=body, content_type=APPLY),
    )


def _manager(text: str) -> str:
    match = _MANAGER.search(text)
    return match[1] if match else "somebody else"


def _bare(live: Manifest) -> dict[str, Any]:
    """An object without what only the server writes."""
    metadata = {key: value for key, value in live.get("metadata", {}).items() if key not in _OF_SERVER}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata}


def _changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Path, value before and value after of all that differs. Entries of a list are told apart by their names."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from _changes(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
    elif (named := _named(before)) is not None and (others := _named(after)) is not None and (named or others):
        for key in [*named, *(key for key in others if key not in named)]:
            yield from _changes(named.get(key), others.get(key), f"{path}[{key}]")
    elif before != after:
        yield path, before, after


def _named(entries: Any) -> dict[str, Any] | None:
    """A list of objects by what identifies each; None where it is no such list."""
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return None
    for key in _KEYS:
        named = {str(entry[key]): entry for entry in entries if key in entry}
        if len(named) == len(entries):
            return named
    return None

"""Reads a kubeconfig and says what is wrong with it, by field, before the official client takes it.

https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/. The official client ignores what it cannot use, such as a plugin that
fails, and goes on without credentials; it reads a token's file once, and waits for a plugin without an end.
"""

import base64
import binascii
import json
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes import client
from kubernetes.config import ConfigException
from kubernetes.config.kube_config import KubeConfigLoader

from controlplane.fleet.clusters.errors import InvalidError

PLUGIN_S = 15.0
"""How long a plugin for credentials may take, s."""
RENEWED_BEFORE = timedelta(seconds=30)
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
ANEW = "write the file anew, such as with `kubectl config view --raw --flatten --minify`"
MAX_SAID = 200
Renew = Callable[[client.Configuration], None]


@dataclass(frozen=True, slots=True)
class Names:
    """What messages call the credentials and the entry of the server."""

    user: str
    cluster: str


def load(path: Path, settings: client.Configuration) -> Names:
    """Set `settings` as the file's current context says. Raises InvalidError with the field, its value and the remedy."""
    document = _Document(path)
    try:
        return _load(document, settings)
    except (ConfigException, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise document.wrong(f"it cannot be read ({type(error).__name__}: {error})", ANEW) from error


def _load(document: "_Document", settings: client.Configuration) -> Names:
    path, (cluster, user) = document.path, document.entries()
    _check_cluster(document, cluster)
    _check_user(document, user)
    content: dict[str, Any] = dict(document.content)
    renew: Renew | None = None
    if plugin := user.value.get("exec"):
        provider = _Plugin(document, f"{user.field}.exec", plugin, cluster.value)
        credentials = provider.run()
        content["users"] = [{"name": user.name, "user": credentials}]
        renew = provider.renew if "token" in credentials else None
    elif not user.value.get("token") and (token := user.value.get("tokenFile")):
        content["users"] = [{"name": user.name, "user": {"token": _token(document, user, token)}}]
        renew = _follow(document.file(token))
    KubeConfigLoader(content, config_base_path=str(path.parent)).load_and_set(settings)  # type: ignore[no-untyped-call]
    try:
        if settings.cert_file:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(settings.cert_file, settings.key_file)
    except ssl.SSLError as error:
        raise document.wrong(
            f"{user.field}.client-certificate and client-key cannot be used together ({error.reason})", ANEW
        ) from error
    settings.refresh_api_key_hook = renew  # type: ignore[assignment]
    return Names(f"{user.field} of {path.name}", f"{cluster.field} of {path.name}")


@dataclass(frozen=True, slots=True)
class _Entry:
    """`field` is its path, such as `users[admin].user`."""

    name: str
    field: str
    value: Mapping[str, Any]


class _Document:
    """One file. Raises InvalidError where it is no kubeconfig."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            content = yaml.safe_load(path.read_text())
        except OSError as error:
            raise InvalidError(
                f"{path.name} in WEIR_KUBECONFIGS_DIR cannot be read ({error.strerror}): let Weir's user read it."
            ) from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise self.wrong(f"it is no YAML{where}", ANEW) from error
        if not isinstance(content, dict):
            raise self.wrong("it is no kubeconfig", ANEW)
        self.content: Mapping[str, Any] = content

    def wrong(self, what: str, remedy: str) -> InvalidError:
        return InvalidError(f"Kubeconfig {self.path.name}: {what}. To correct it, {remedy}.")

    def file(self, name: str) -> Path:
        """Names of files are relative to the kubeconfig."""
        return self.path.parent / name

    def entries(self) -> tuple[_Entry, _Entry]:
        """The cluster and the user of the current context."""
        contexts = self._named("contexts", "context")
        current = self.content.get("current-context")
        if not current:
            remedy = f"choose one of {', '.join(contexts)}: `kubectl config use-context`" if contexts else ANEW
            raise self.wrong("current-context is missing", remedy)
        if current not in contexts:
            raise self.wrong(f"current-context is “{current}”, which contexts does not have", f"choose {_of(contexts)}")
        context = contexts[current]
        return self._entry("cluster", current, context), self._entry("user", current, context)

    def _entry(self, kind: str, current: str, context: Mapping[str, Any]) -> _Entry:
        named, name = self._named(f"{kind}s", kind), context.get(kind)
        if not name and kind == "user":  # none: what the server is behind gives credentials, such as `kubectl proxy`
            return _Entry("", f"contexts[{current}].context.user", {})
        if name not in named:
            field = f"contexts[{current}].context.{kind}"
            raise self.wrong(f"{field} is “{name or ''}”, which {kind}s does not have", f"choose {_of(named)}")
        return _Entry(str(name), f"{kind}s[{name}].{kind}", named[name])

    def _named(self, listed: str, kind: str) -> dict[str, Mapping[str, Any]]:
        entries = self.content.get(listed) or []
        try:
            return {entry["name"]: entry.get(kind) or {} for entry in entries}
        except (TypeError, KeyError, AttributeError) as error:
            raise self.wrong(f"{listed} is no list of names", ANEW) from error


def _of(names: Mapping[str, Any]) -> str:
    return f"one of {', '.join(names)}" if names else "a name, and add its entry"


def _check_cluster(document: _Document, cluster: _Entry) -> None:
    value, server = cluster.value, str(cluster.value.get("server") or "")
    if urlsplit(server).scheme not in ("https", "http") or not urlsplit(server).hostname:
        raise document.wrong(f"{cluster.field}.server is “{server}”", "write https://HOST:PORT of the API server")
    proxy = str(value.get("proxy-url") or "")
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise document.wrong(
            f"{cluster.field}.proxy-url is “{proxy}”", "name a proxy whose URL begins with http:// or https://"
        )
    field = f"{cluster.field}.certificate-authority"
    try:
        if data := value.get("certificate-authority-data"):
            field += "-data"
            text = base64.b64decode(data, validate=True).decode()
        elif name := value.get("certificate-authority"):
            text = document.file(name).read_text()
        else:
            return
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except OSError as error:  # SSLError is one too
        why = "is no certificate in PEM" if isinstance(error, ssl.SSLError) else f"cannot be read ({error.strerror})"
        raise document.wrong(f"{field} {why}", "put the certificate of the cluster's CA there") from error
    except (binascii.Error, ValueError, TypeError) as error:
        raise document.wrong(f"{field} is no base64 of a certificate in PEM", "put the cluster's CA there") from error


def _check_user(document: _Document, user: _Entry) -> None:
    if "auth-provider" in user.value:
        name = (user.value["auth-provider"] or {}).get("name", "")
        raise document.wrong(
            f"{user.field}.auth-provider is “{name}”, which Kubernetes has removed in 1.26",
            "use the provider's plugin (exec)",
        )
    for name in ("client-certificate", "client-key"):
        file = user.value.get(name)
        if file and not user.value.get(f"{name}-data") and not document.file(file).is_file():
            raise document.wrong(
                f"{user.field}.{name} is {file}, which is no file", f"put it there, or use {name}-data"
            )


def _token(document: _Document, user: _Entry, name: str) -> str:
    try:
        token = document.file(name).read_text().strip()
    except OSError as error:
        raise document.wrong(
            f"{user.field}.tokenFile is {name}, which cannot be read ({error.strerror})", "put the token there"
        ) from error
    if not token:
        raise document.wrong(f"{user.field}.tokenFile is {name}, which is empty", "put the token there")
    return token


def _follow(file: Path) -> Renew:
    """Takes the token that the file has now, as whoever rotates it writes it anew."""

    def renew(settings: client.Configuration) -> None:
        try:
            token = file.read_text().strip()
        except OSError:
            return  # between two tokens
        if token:
            settings.api_key["BearerToken"] = f"Bearer {token}"

    return renew


class _Plugin:
    """A program that gives credentials.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """

    def __init__(self, document: _Document, field: str, plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> None:
        self._document, self._field, self._plugin, self._cluster = document, field, plugin, cluster
        self._lock = threading.Lock()
        self._ends: datetime | None = None
        version, command = plugin.get("apiVersion"), plugin.get("command")
        if version not in EXEC_VERSIONS:
            raise document.wrong(f"{field}.apiVersion is “{version or ''}”", f"use {EXEC_VERSIONS[0]}")
        if not command:
            raise document.wrong(f"{field}.command is missing", "name the plugin's program")

    def run(self) -> dict[str, str]:
        """A user's credentials, as a kubeconfig has them. Raises InvalidError."""
        command, wrong = self._plugin["command"], self._document.wrong
        try:
            ended = subprocess.run(  # noqa: S603  (what the kubeconfig names, as kubectl does)
                [command, *map(str, self._plugin.get("args") or ())],
                capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PLUGIN_S, check=False,
                cwd=self._document.path.parent, env=self._environment(),
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise wrong(
                f"{self._field}.command, {command}, did not end within {PLUGIN_S:g} s", "see why it waits"
            ) from error
        except OSError as error:
            raise wrong(
                f"{self._field}.command is {command}, which cannot be run ({error.strerror})",
                "install it where Weir's controller runs, or use a token of a ServiceAccount",
            ) from error
        if ended.returncode:
            said = " ".join(ended.stderr.split())[-MAX_SAID:] or "it said nothing"
            raise wrong(
                f"{self._field}.command, {command}, failed with exit code {ended.returncode}: {said}",
                "run it as Weir's user until it succeeds",
            )
        return self._credentials(ended.stdout)

    def renew(self, settings: client.Configuration) -> None:
        """Take a new token before the last one ends. Raises InvalidError."""
        with self._lock:
            if self._ends is not None and datetime.now(UTC) > self._ends - RENEWED_BEFORE:
                settings.api_key["BearerToken"] = f"Bearer {self.run()['token']}"

    def _environment(self) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.get("provideClusterInfo"):
            spec["cluster"] = {name: each for name, each in self._cluster.items() if name != "extensions"}
        info = {"apiVersion": self._plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}
        own = {each["name"]: each["value"] for each in self._plugin.get("env") or ()}
        return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}

    def _credentials(self, said: str) -> dict[str, str]:
        command = self._plugin["command"]
        try:
            answer = json.loads(said)
            version, status = answer["apiVersion"], answer["status"]
            ends = status.get("expirationTimestamp")
            self._ends = datetime.fromisoformat(ends).astimezone(UTC) if ends else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._document.wrong(
                f"{self._field}.command, {command}, printed no ExecCredential", "correct the command or its args"
            ) from error
        if version != self._plugin["apiVersion"]:
            text = f"{self._field}.apiVersion is {self._plugin['apiVersion']}, and {command} speaks {version}"
            raise self._document.wrong(text, f"write {version}")
        if token := status.get("token"):
            return {"token": token}
        chain, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if not chain or not key:
            text = f"{self._field}.command, {command}, gave neither a token nor a certificate with its key"
            raise self._document.wrong(text, "correct the command or its args")
        return {"client-certificate-data": _encoded(chain), "client-key-data": _encoded(key)}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

"""Kubeconfigs as people have them: what works, and what a wrong one says by field."""

import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.fleet.clusters.errors import ForbiddenError, InvalidError
from controlplane.fleet.clusters.kubernetes import kubeconfig as module
from controlplane.fleet.clusters.kubernetes.client import Api, NoConnectionError, UnauthorizedError, connect
from controlplane.fleet.clusters.kubernetes.objects import Metadata
from tests.support.cluster.authority import Authority
from tests.support.cluster.namespace import Namespace

Document = dict[str, Any]
LIST = "/apis/apps/v1/namespaces/default/deployments"


def document(server: str = "https://127.0.0.1:1", user: Document | None = None, **cluster: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def plugin(folder: Path, script: str, **fields: Any) -> Document:
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", **fields}}


def credential(version: str = "v1", **status: str) -> str:
    body = {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(body)}'"


def written(folder: Path, content: Document | str) -> Path:
    path = folder / "east.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def token_of(path: Path) -> str:
    opened = connect(path)
    headers: dict[str, str] = {}
    opened.update_params_for_auth(headers, [], ["BearerToken"], "/", "GET", None)
    return headers["authorization"]


def _without(name: str) -> Document:
    return {key: value for key, value in document().items() if key != name}


def _user(**user: Any) -> Callable[[Path], Document]:
    return lambda _: document(user=user)


def _cluster(**cluster: Any) -> Callable[[Path], Document]:
    return lambda _: document(**cluster)


WRONG: dict[str, tuple[Callable[[Path], Document | str], str]] = {
    "no YAML": (lambda _: "a: [b", "it is no YAML at line 1, column 6"),
    "a list": (lambda _: "- a", "it is no kubeconfig"),
    "empty": (lambda _: "", "it is no kubeconfig"),
    "no context chosen": (
        lambda _: _without("current-context"),
        "current-context is missing. To correct it, choose one of x",
    ),
    "another context": (
        lambda _: document() | {"current-context": "y"},
        "current-context is “y”, which contexts does not have. To correct it, choose one of x",
    ),
    "no such cluster": (
        lambda _: document() | {"clusters": []},
        "contexts[x].context.cluster is “c”, which clusters does not have",
    ),
    "no users": (lambda _: _without("users"), "contexts[x].context.user is “u”, which users does not have"),
    "no list": (lambda _: document() | {"users": "u"}, "users is no list of names"),
    "no server": (_cluster(server=""), "clusters[c].cluster.server is “”. To correct it, write https://"),
    "no scheme": (_cluster(server="127.0.0.1:6443"), "clusters[c].cluster.server is “127.0.0.1:6443”"),
    "proxy": (_cluster(**{"proxy-url": "socks5://proxy:1"}), "clusters[c].cluster.proxy-url is “socks5://proxy:1”"),
    "CA is no base64": (
        _cluster(**{"certificate-authority-data": "no base64!"}),
        "clusters[c].cluster.certificate-authority-data is no base64 of a certificate",
    ),
    "CA is no certificate": (
        _cluster(**{"certificate-authority-data": base64.b64encode(b"hello").decode()}),
        "clusters[c].cluster.certificate-authority-data is no certificate in PEM",
    ),
    "CA is no file": (
        _cluster(**{"certificate-authority": "ca.crt"}),
        "clusters[c].cluster.certificate-authority cannot be read (No such file or directory)",
    ),
    "auth-provider": (
        _user(**{"auth-provider": {"name": "gcp"}}),
        "users[u].user.auth-provider is “gcp”, which Kubernetes has removed",
    ),
    "no such certificate": (
        _user(**{"client-certificate": "a.crt"}),
        "users[u].user.client-certificate is a.crt, which is no file",
    ),
    "no token's file": (_user(tokenFile="token"), "users[u].user.tokenFile is token, which cannot be read"),
    "no plugin": (
        _user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "weir-no-such-plugin"}),
        "users[u].user.exec.command is weir-no-such-plugin, which cannot be run (No such file or directory). To correct it, install it",
    ),
    "old plugin": (
        lambda folder: document(user=plugin(folder, "", apiVersion="client.authentication.k8s.io/v1alpha1")),
        "users[u].user.exec.apiVersion is “client.authentication.k8s.io/v1alpha1”. To correct it, use",
    ),
    "plugin of another version": (
        lambda folder: document(user=plugin(folder, credential("v1beta1", token="t"))),
        "To correct it, write client.authentication.k8s.io/v1beta1",
    ),
    "failing plugin": (
        lambda folder: document(user=plugin(folder, "echo run sso login >&2; exit 3")),
        "users[u].user.exec.command, ./plugin, failed with exit code 3: run sso login",
    ),
    "babbling plugin": (
        lambda folder: document(user=plugin(folder, "echo hello")),
        "users[u].user.exec.command, ./plugin, printed no ExecCredential",
    ),
    "idle plugin": (
        lambda folder: document(user=plugin(folder, credential())),
        "users[u].user.exec.command, ./plugin, gave neither a token nor a certificate with its key",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_named_by_field(tmp_path: Path, what: str) -> None:
    """The official client takes many of these without a word, and is refused as `system:anonymous` then."""
    make, message = WRONG[what]
    with pytest.raises(InvalidError) as refused:
        connect(written(tmp_path, make(tmp_path)))
    assert str(refused.value).startswith("Kubeconfig east.yaml: ")
    assert message in str(refused.value) and "secret" not in str(refused.value)


def test_a_key_of_another_certificate_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    chain, _ = authority.issue("a", "ada")
    _, key = authority.issue("b", "bob")
    path = written(tmp_path, document(user={"client-certificate": chain.name, "client-key": key.name}))
    with pytest.raises(InvalidError, match=r"client-certificate and client-key cannot be used together"):
        connect(path)


def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLUGIN_S", 0.2)
    with pytest.raises(InvalidError, match=r"did not end within 0\.2 s"):
        connect(written(tmp_path, document(user=plugin(tmp_path, "exec sleep 60"))))


def test_a_plugins_token_is_renewed_before_it_ends(tmp_path: Path) -> None:
    ends = credential(token="first", expirationTimestamp="2020-01-01T00:00:00Z")
    opened = connect(written(tmp_path, document(user=plugin(tmp_path, ends))))
    plugin(tmp_path, credential(token="second", expirationTimestamp="2099-01-01T00:00:00Z"))
    for _ in range(2):
        headers: dict[str, str] = {}
        opened.update_params_for_auth(headers, [], ["BearerToken"], "/", "GET", None)
        assert headers["authorization"] == "Bearer second"
        plugin(tmp_path, "exit 1")


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    chain, key = (file.read_text() for file in Authority(tmp_path).issue("a", "ada"))
    (tmp_path / "answer").write_text(credential(clientCertificateData=chain, clientKeyData=key)[6:-1])
    opened = connect(written(tmp_path, document(user=plugin(tmp_path, "cat answer"))))
    assert Path(opened.configuration.cert_file).read_text() == chain


def test_of_several_contexts_the_current_one_counts(tmp_path: Path) -> None:
    both = document()
    both["users"].insert(0, {"name": "other", "user": {"token": "other"}})
    both["contexts"].insert(0, {"name": "first", "context": {"cluster": "c", "user": "other"}})
    assert token_of(written(tmp_path, both)) == "Bearer secret"
    assert token_of(written(tmp_path, both | {"current-context": "first"})) == "Bearer other"


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (
            {},
            r"no connection to https://127.0.0.1:1 \(Connection refused\). If the address is wrong, correct clusters\[c\]",
        ),
        ({"proxy-url": "http://127.0.0.1:1"}, r"the proxy http://127.0.0.1:1 does not answer \(Connection refused\)"),
    ],
)
def test_what_cannot_be_reached_is_named(tmp_path: Path, cluster: Document, message: str) -> None:
    with pytest.raises(NoConnectionError, match=message):
        Api(partial(connect, written(tmp_path, document(**cluster)))).request("GET", LIST, Metadata)


def authority_of(hollow: Namespace) -> Document:
    assert hollow.plane
    server = {"server": f"https://127.0.0.1:{hollow.plane.port}"}
    return server | {"certificate-authority": str(hollow.plane.folder / "ca.crt")}


def a_token(hollow: Namespace, name: str = "weir") -> str:
    hollow.core.create_namespaced_service_account(hollow.name, {"metadata": {"name": name}})
    body: Any = {"spec": {"expirationSeconds": 600}}
    return str(hollow.core.create_namespaced_service_account_token(name, hollow.name, body).status.token)


def test_a_server_that_got_no_credentials_says_where_they_are_missing(hollow: Namespace, tmp_path: Path) -> None:
    """A kubeconfig without any is fine where a proxy adds them: the server says whether they are missing."""
    api = Api(partial(connect, written(tmp_path, document(user={}, **authority_of(hollow)))))
    with pytest.raises(UnauthorizedError, match=r"got no credentials: give users\[u\].user of east.yaml a token"):
        api.request("GET", LIST, Metadata)


def who(api: Api) -> str:
    """As whom the server knows it: somebody without rights."""
    with pytest.raises(ForbiddenError) as refused:
        api.request("GET", LIST, Metadata)
    return str(refused.value).partition(":serviceaccount:")[2].partition('"')[0].partition(":")[2]


def test_a_kubeconfig_that_was_replaced_counts_with_the_next_request(hollow: Namespace, tmp_path: Path) -> None:
    """Though what it said before would still do."""
    right = authority_of(hollow)
    path = written(tmp_path, document(user={"token": a_token(hollow, "old")}, **right))
    api = Api(partial(connect, path))
    assert who(api) == "old"
    written(tmp_path, document(user={"token": a_token(hollow, "new")}, **right))
    assert (who(api), api.moves) == ("new", 0)
    (tmp_path / "ca.crt").write_bytes(Path(right["certificate-authority"]).read_bytes())
    path.write_text(path.read_text().replace(right["certificate-authority"], "ca.crt"))
    assert (who(api), api.moves) == ("new", 1)
    Authority(tmp_path)  # another CA in the same file
    with pytest.raises(NoConnectionError, match="is not of the certificate-authority in clusters"):
        api.request("GET", LIST, Metadata)


def test_a_plugin_is_asked_again_where_its_user_may_not(hollow: Namespace, tmp_path: Path) -> None:
    now = [0.0]
    (tmp_path / "answer").write_text(credential(token=a_token(hollow, "old"))[6:-1])
    user = plugin(tmp_path, "cat answer")
    api = Api(partial(connect, written(tmp_path, document(user=user, **authority_of(hollow)))), clock=lambda: now[0])
    assert who(api) == "old"
    (tmp_path / "answer").write_text(credential(token=a_token(hollow, "new"))[6:-1])
    assert who(api) == "old", "not with each request: a plugin takes its time"
    now[0] += 60
    assert [who(api), who(api)] == ["old", "new"]


def test_a_token_that_ended_is_named_and_a_rotated_one_is_taken(hollow: Namespace, tmp_path: Path) -> None:
    token, file = a_token(hollow), tmp_path / "token"
    file.write_text("ended")
    api = Api(partial(connect, written(tmp_path, document(user={"tokenFile": "token"}, **authority_of(hollow)))))
    with pytest.raises(
        UnauthorizedError, match=r"credentials of users\[u\].user of east.yaml, or they ended: renew them"
    ):
        api.request("GET", LIST, Metadata)
    file.write_text(token)
    with pytest.raises(ForbiddenError, match=f"system:serviceaccount:{hollow.name}:weir"):  # known, and without rights
        api.request("GET", LIST, Metadata)


def test_a_kubeconfig_that_is_corrected_is_read_again(hollow: Namespace, tmp_path: Path) -> None:
    """Without a restart, whether the server refused its credentials or its certificate was not trusted."""
    now, right = [0.0], authority_of(hollow)
    Authority(tmp_path)
    path = written(tmp_path, document(user={"token": "ended"}, **right))
    api = Api(partial(connect, path), clock=lambda: now[0])
    for content, error, message in (
        (document(user={"token": "ended"}, **right), UnauthorizedError, "renew them"),
        (
            document(**right | {"certificate-authority": "ca.crt"}),
            NoConnectionError,
            "is not of the certificate-authority in clusters",
        ),
        (document(user={"token": a_token(hollow)}, **right), ForbiddenError, "system:serviceaccount"),
    ):
        written(tmp_path, content)
        with pytest.raises(error, match=message):
            api.request("GET", LIST, Metadata)
        now[0] += 10
        with pytest.raises(error, match=message):
            api.request("GET", LIST, Metadata)

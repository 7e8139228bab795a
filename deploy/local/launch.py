"""Starts all of Weir on this machine, and says where things are."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil

from deploy.local import backend
from deploy.local import options as options_
from deploy.local.backend import Server, client_name
from deploy.local.cluster.api import serving
from deploy.local.errors import CannotRunError
from deploy.local.home_lock import hold
from deploy.local.options import Options
from deploy.local.parts import build
from deploy.local.ports import is_free, reserved
from deploy.local.preflight import problem
from deploy.local.supervisor import Supervisor
from inference.contract.settings.names import as_text


def main() -> int:
    try:
        _run(options_.read())
    except CannotRunError as error:
        print(f"weir cannot run: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: Options) -> None:
    if reason := problem():
        raise CannotRunError(reason)
    if names := as_text(os.environ):
        _say(f"nothing reads {names}: docs/settings.md has all names")
    with hold(options.home, _say), ExitStack() as own:
        _check_ports(options)
        try:  # else two launchers that start at once share it, and each gets a part of the requests
            own.enter_context(reserved(options.web_port))
        except OSError:
            raise CannotRunError(_taken("WEIR_WEB_PORT", options.web_port)) from None
        servers = backend.servers(options.backend_urls, options.backend_api_key)
        try:
            local = build(options, servers)
        except FileNotFoundError as error:  # a wheel or an environment that set-up installs
            raise CannotRunError(str(error)) from error
        _say(f"starting {len(local.parts)} parts, logs are in {options.home / 'logs'}")
        with serving(local.cluster, local.cluster_port, local.cluster_token):
            Supervisor(local.parts, options.home / "logs", _say, each_round=local.cluster.keep).run(
                when_ready=lambda: _welcome(options, servers)
            )
        _say("ended: nothing is left running")


def _check_ports(options: Options) -> None:
    by_port: dict[int, str] = {}
    for variable, port in options.public_ports.items():
        if port in by_port:
            raise CannotRunError(f"{by_port[port]} and {variable} are both {port}: give each a port of its own")
        by_port[port] = variable
    if taken := [_taken(variable, port) for port, variable in by_port.items() if not is_free(port)]:
        raise CannotRunError("\n  and ".join(taken))


def _taken(variable: str, port: int) -> str:
    return f"port {port} is taken{_holder(port)}: end what listens there, or set {variable} to a free port"


def _holder(port: int) -> str:
    """The process that listens there, where this user may know it."""
    try:
        pids = [
            connection.pid
            for connection in psutil.net_connections("tcp")
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN
        ]
        return f" by {psutil.Process(pids[0]).name()} (process {pids[0]})" if pids and pids[0] else ""
    except psutil.Error:
        return ""


def _welcome(options: Options, servers: Sequence[Server]) -> None:
    """Where things are. Secrets are named by their files: a terminal is recorded, shared and scrolled back."""
    home = _short(options.home)
    print(
        f"""
  dashboard   http://localhost:{options.web_port}/   user admin, password in {home}/admin-password
              or users viewer, responder, owner, approver of team serving, password in {home}/demo-password
  API         http://localhost:{options.web_port}/api/v1/docs   token in {home}/api-token
  gateway     {"https" if options.tls_certificate else "http"}://localhost:{options.gateway_port}/v1   key in {home}/gateway-key
{_served(servers)}  OTLP        http://localhost:{options.otlp_http_port} and grpc://localhost:{options.otlp_grpc_port}
  data, logs  {home}   Ctrl-C ends everything

weir is ready
""",
        flush=True,
    )


def _served(servers: Sequence[Server]) -> str:
    """A line for each model server. Weir's own models need none."""
    lines = (f"{server.url}   {', '.join(client_name(model.name) for model in server.models)}" for server in servers)
    text = "".join(f"  in front of {line}\n" for line in lines)
    return f"{text}              no demo models and no generated traffic\n" if servers else ""


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

"""`manage.py stack render|diff|apply`: workloads of the fleet as Kubernetes objects."""

import sys
from collections.abc import Iterable
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.core.formatting import TEXT
from controlplane.fleet import workload_manifests
from controlplane.fleet.clusters.errors import ClusterError, SecondOwnerError
from controlplane.fleet.clusters.port import Difference, Manifest
from controlplane.fleet.clusters.registry import kubernetes
from controlplane.fleet.models import Cluster


class Command(BaseCommand):
    help = (
        "The workloads of the fleet in Kubernetes. Exit codes: 0 fine, 1 errors or (diff) something would change. "
        "It uses the kubeconfig of each cluster."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="render|diff|apply")
        for name, words in (
            ("render", "print the objects as YAML"),
            ("diff", "show what apply would change; exits 1 if anything"),
            ("apply", "show the changes and make them; those of one cluster fail alone"),
        ):
            command = commands.add_parser(name, help=words)
            command.add_argument("--cluster", default="", help="only those of this cluster")
            if name == "apply":
                command.add_argument(
                    "--adopt",
                    action="store_true",
                    help="also set fields that somebody else manages, and manage them from now on",
                )

    def handle(self, **options: Any) -> None:
        by_cluster = self._manifests(options["cluster"])
        if not by_cluster:
            raise CommandError(
                "No workload to render: enter one in the admin under Fleet, Workloads, for a pool in a Kubernetes cluster."
            )
        if options["command"] == "render":
            self.stdout.write(yaml.safe_dump_all((m for _, each in by_cluster for m in each), sort_keys=False))
            return
        ends = [self._cluster(cluster, manifests, options) for cluster, manifests in by_cluster]
        if any(ends):
            sys.exit(1)

    def _manifests(self, name: str) -> list[tuple[Cluster, list[Manifest]]]:
        made: dict[int, tuple[Cluster, list[Manifest]]] = {}
        for row in workload_manifests.workloads(name):
            try:
                rendered = workload_manifests.manifests(row, settings.CONFIG)
            except ValueError as error:
                raise CommandError(f"workload {row}: {error}") from None
            if row.place is not None:
                made.setdefault(row.place.pk, (row.place, []))[1].extend(rendered)
        return list(made.values())

    def _cluster(self, cluster: Cluster, manifests: list[Manifest], options: dict[str, Any]) -> bool:
        """Whether it failed, or (diff) whether something would change."""
        connection = kubernetes(cluster)
        applies = options["command"] == "apply"
        try:
            differences = connection.apply(manifests, dry_run=True)
            self._print(cluster.name, differences)
            changes = any(difference.action != "none" for difference in differences)
            if applies and any(difference.action == "refused" for difference in differences):
                self.stderr.write(f"cluster {cluster}: nothing was applied, because not all of it can be.")
                return True
            if applies and changes:
                connection.apply(manifests, dry_run=False, adopt=options["adopt"])
                self.stdout.write(f"cluster {cluster}: applied")
        except SecondOwnerError as error:
            self.stderr.write(
                f"cluster {cluster}: {str(error).rstrip('.')}. Nothing was applied; --adopt takes these fields over."
            )
            return True
        except ClusterError as error:
            self.stderr.write(f"cluster {cluster}: {error}")
            return True
        finally:
            connection.close()
        return changes and not applies

    def _print(self, cluster: str, differences: Iterable[Difference]) -> None:
        counted = 0
        for difference in differences:
            for warning in difference.warnings:
                self.stderr.write(f"{difference.kind}/{difference.name}: the cluster warns: {warning}")
            if difference.action == "none":
                continue
            counted += 1
            self.stdout.write(f"{difference.action} {difference.kind}/{difference.name}")
            if difference.problem:
                self.stdout.write(f"  {difference.problem}")
            if difference.action != "create":
                for path, before, after in difference.changes:
                    self.stdout.write(f"  {path}: {before!r} → {after!r}")
            for container in difference.stays:
                self.stdout.write(f"  container {container} stays beside it: remove it from the object if it should go")
            for path, manager in difference.taken_from:
                self.stdout.write(f"  {path} is managed by {manager}")
        self.stdout.write(
            f"cluster {cluster}: {TEXT.counted(counted, 'object')} to change"
            if counted
            else f"cluster {cluster}: nothing differs"
        )

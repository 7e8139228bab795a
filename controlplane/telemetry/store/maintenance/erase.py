"""Erases what is a tenant's: its requests and their traces. Counts of all together (rollups, demand, tallies) name none, and stay."""

from collections.abc import Mapping

from ..client import StorePart

_OF_TENANT = ("request_samples", "requests")
_OF_TRACE = ("scores", "lost_traces")
_WITH_ITS = "trace_id IN (SELECT trace_id FROM requests WHERE tenant = {tenant:String})"
_WITHOUT_OTHERS = "trace_id NOT IN (SELECT trace_id FROM requests WHERE tenant != {tenant:String})"
"""A trace that has requests of others too is theirs as well, and stays, but for the spans that name the tenant: its requests' own."""
_WHERE: Mapping[str, str] = {
    "spans": f"{_WITH_ITS} AND ({_WITHOUT_OTHERS} OR attributes['weir.tenant'] = {{tenant:String}})",
    **dict.fromkeys(_OF_TRACE, f"{_WITH_ITS} AND {_WITHOUT_OTHERS}"),
    **dict.fromkeys(_OF_TENANT, "tenant = {tenant:String}"),
}
_AT_ONCE = " SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1"
"""Wait until the parts are written anew, on all replicas. The subqueries read what nothing writes meanwhile."""


class Eraser(StorePart):
    """Raises StoreUnavailableError or StoreError."""

    def counts(self, tenant: str) -> dict[str, int]:
        """Rows by table."""
        parameters = {"tenant": tenant}
        return {
            table: int(self._connection.rows(f"SELECT count() FROM {table} WHERE {where}", parameters)[0][0])
            for table, where in _WHERE.items()
        }

    def erase(self, tenant: str) -> None:
        """Traces first: they are known by their requests, so that it can be begun again where it was cut off."""
        for table, where in _WHERE.items():
            self._connection.command(f"ALTER TABLE {table} DELETE WHERE {where}{_AT_ONCE}", {"tenant": tenant})

"""Erases what is a tenant's, all or what is old: its requests and their traces. Counts of all together (rollups, demand, tallies) name
none, and stay.
"""

from collections.abc import Mapping

from ..client import StorePart

END_NS = 2**63 - 1
_OF_TENANT = ("request_samples", "requests")
_OF_TRACE = ("scores", "lost_traces")
_ITS = "tenant = {tenant:String} AND entry_start_ns < {before_ns:Int64}"
_WITH_ITS = f"trace_id IN (SELECT trace_id FROM requests WHERE {_ITS})"
_WITHOUT_OTHERS = f"trace_id NOT IN (SELECT trace_id FROM requests WHERE NOT ({_ITS}))"
"""A trace that has other requests too is theirs as well, and stays, but for the spans that name the tenant: its requests' own."""
_OWN = "attributes['weir.tenant'] = {tenant:String} AND start_ns < {before_ns:Int64}"
_WHERE: Mapping[str, str] = {
    "spans": f"{_WITH_ITS} AND ({_WITHOUT_OTHERS} OR {_OWN})",
    **dict.fromkeys(_OF_TRACE, f"{_WITH_ITS} AND {_WITHOUT_OTHERS}"),
    **dict.fromkeys(_OF_TENANT, _ITS),
}
_AT_ONCE = " SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1"
"""Wait until the parts are written anew, on all replicas. The subqueries read what nothing writes meanwhile."""


class Eraser(StorePart):
    """Of requests that began before `before_ns`, Unix time in ns. Raises StoreUnavailableError or StoreError."""

    def counts(self, tenant: str, before_ns: int = END_NS) -> dict[str, int]:
        """Rows by table."""
        parameters = {"tenant": tenant, "before_ns": before_ns}
        return {
            table: int(self._connection.rows(f"SELECT count() FROM {table} WHERE {where}", parameters)[0][0])
            for table, where in _WHERE.items()
        }

    def erase(self, tenant: str, before_ns: int = END_NS) -> None:
        """Traces first: they are known by their requests, so that it can be begun again where it was cut off."""
        for table, where in _WHERE.items():
            delete = f"ALTER TABLE {table} DELETE WHERE {where}{_AT_ONCE}"
            self._connection.command(delete, {"tenant": tenant, "before_ns": before_ns})

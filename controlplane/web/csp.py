"""Sets the Content-Security-Policy, with one exception for the admin."""

from csp.constants import UNSAFE_EVAL
from csp.middleware import CSPMiddleware, PolicyParts
from django.http import HttpRequest, HttpResponseBase


class ContentSecurityPolicy(CSPMiddleware):
    """The admin's Alpine.js evaluates expressions in attributes: its pages, for staff only, may use `unsafe-eval`."""

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if not report_only and request.path_info.startswith("/admin/"):
            parts.update = {**(parts.update or {}), "script-src": ["'self'", UNSAFE_EVAL]}
        return parts

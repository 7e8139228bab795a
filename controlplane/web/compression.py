"""Compresses pages and their parts. Scripts and sheets are compressed when they are collected; exports say themselves how they come."""

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class CompressedPages(GZipMiddleware):
    """Gzip, with a random length against guessing secrets from sizes (BREACH), as Django has it."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = isinstance(response, HttpResponse) and response.get("Content-Type", "").startswith("text/html")
        return super().process_response(request, response) if is_page else response

"""Web sockets of the dashboard."""

from django.urls import path

from controlplane.dashboard.consumers import Live

websocket_urlpatterns = [path("live", Live.as_asgi())]

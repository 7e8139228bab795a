"""Shapes of what the endpoints of policies take and answer."""

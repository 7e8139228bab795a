"""The controller's process: `python -m controlplane.controller`."""

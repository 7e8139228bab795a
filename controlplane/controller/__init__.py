"""The controller process: `python -m controlplane.controller`."""

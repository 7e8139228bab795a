"""Where replicas run: Kubernetes, or the processes of one machine."""

"""The local cluster: replicas that start and stop while everything else runs."""

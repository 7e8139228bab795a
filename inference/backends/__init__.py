"""The model servers: `fleet` keeps the pools and replicas, and each kind of server has a file of its own."""

"""What a tick sees: gateways' signals, clusters, objectives, capacities and plans, each with its age."""

"""Stand-ins for models on a real Triton: they have the published tensors, and check each strictly."""

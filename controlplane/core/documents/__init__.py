"""Files that people keep and apply: YAML with positions, problems with remedies, the plan of an apply, and what a command reports."""

"""What is done about a decision: a journal of actions, each of a few steps that can be done again without harm (docs/loop.md)."""

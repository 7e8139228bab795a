"""What OpenAI-compatible model servers send: streams of events, chunks, errors, and how each server differs."""

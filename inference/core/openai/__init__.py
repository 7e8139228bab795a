"""OpenAI's API as its official client uses it: requests, responses, events and errors."""

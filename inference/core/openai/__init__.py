"""OpenAI's API as its official client speaks it: requests in, responses, events and errors out. Pure."""

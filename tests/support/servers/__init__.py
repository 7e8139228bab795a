"""Stand-ins for model servers, which hold the gateway to what the real ones take."""

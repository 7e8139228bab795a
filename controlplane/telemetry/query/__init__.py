"""What people ask of telemetry, as it stands in a URL: a time range, filters, a quantile. Pure; shared by pages and API."""

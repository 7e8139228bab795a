"""From forecasts of demand to replicas, GPU-hours and cost. Pure, as all of `forecasting`."""

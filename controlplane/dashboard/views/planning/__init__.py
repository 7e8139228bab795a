"""Pages of planners: forecasts, the plan by hour, what-ifs, the quarter's worksheet, and the jobs behind them."""

"""Charts as plain dicts in plotly's schema (building through plotly.graph_objects costs a hundred times more)."""

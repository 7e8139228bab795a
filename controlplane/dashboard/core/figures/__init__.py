"""Charts in plotly's schema, with one template (`layout.TEMPLATE`)."""

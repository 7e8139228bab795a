"""Prometheus scrape: `targets` says whom, `page` reads what they answer, `scraper` asks them in time."""

"""Prometheus scrape: `targets` lists the targets, `scraper` requests their pages, `page` parses them."""

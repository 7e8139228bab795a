"""Objectives, error budgets, burn rates: pure functions on plain values. Terms are those of Google's SRE workbook."""

"""Objectives: error budgets, burn rates, evaluation, replay and OpenSLO. Terms are those of Google's SRE workbook."""

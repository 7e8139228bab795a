"""Objectives as OpenSLO v1 documents: reading with positions, the specification's rules, a linter, import, export and plans.

Everything but `apps`, `models`, `store` and `management` is pure. The specification: github.com/OpenSLO/OpenSLO; where it is silent, its
go-sdk's validation rules are followed.
"""

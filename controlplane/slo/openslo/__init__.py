"""Objectives as OpenSLO v1 documents: reading with positions, validation, a linter, import, export and plans.

The specification is github.com/OpenSLO/OpenSLO; where it is silent, the validation rules of its go-sdk apply.
"""

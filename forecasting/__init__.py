"""Forecasts of demand and what follows from them. Pure: plain values in, plain values out; no Django, no database, no network."""

"""Policies as revisions: who may propose, approve, activate and pause them, as forms, files and over REST."""

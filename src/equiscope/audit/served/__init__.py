"""Served models: what an OpenAI-compatible endpoint does that a model would not.

`connection` talks to one host, `answers` reads what it says, `endpoint` asks within a budget, `statements` are the rows, `noise`
tells rounding from faults, `checking` puts them together.
"""

"""Inputs: the model and what it is called with, given or made, then varied, lengthened and completed."""

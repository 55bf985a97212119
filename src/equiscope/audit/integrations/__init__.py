"""Integrations: checks in other tools: pytest, JUnit, Hypothesis, and models that are no modules, as calculators of ASE."""

"""Diagnose: what breaks is made small, the module and the operation where it breaks are found, and the cause is named."""

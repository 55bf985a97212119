"""Subject: the model under check, which can be run many times without being changed."""

from equiscope.audit.subject.subject import (
    Crashed,
    Outputs,
    Pass,
    Seeds,
    Subject,
    arguments,
    copy_in_dtype,
    first_tokens,
    randomize_parameters,
    shortened,
)

__all__ = [
    "Crashed",
    "Outputs",
    "Pass",
    "Seeds",
    "Subject",
    "arguments",
    "copy_in_dtype",
    "first_tokens",
    "randomize_parameters",
    "shortened",
]

"""Subject: the model under check, which can be run many times without being changed."""

from equiscope.audit.subject.subject import (
    ModelError,
    Outputs,
    Pass,
    Seeds,
    Subject,
    arguments,
    copy_in_dtype,
    first_tokens,
    numbers,
    randomize_parameters,
    reseed,
    shortened,
)

__all__ = [
    "ModelError",
    "Outputs",
    "Pass",
    "Seeds",
    "Subject",
    "arguments",
    "copy_in_dtype",
    "first_tokens",
    "numbers",
    "randomize_parameters",
    "reseed",
    "shortened",
]

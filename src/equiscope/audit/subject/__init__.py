"""Subject: the model under check, which can be run again and again without being changed."""

from equiscope.audit.subject.subject import (
    Crashed,
    Outputs,
    Pass,
    Seeds,
    Subject,
    arguments,
    copied,
    first_tokens,
    scramble,
    shortened,
)

__all__ = [
    "Crashed",
    "Outputs",
    "Pass",
    "Seeds",
    "Subject",
    "arguments",
    "copied",
    "first_tokens",
    "scramble",
    "shortened",
]

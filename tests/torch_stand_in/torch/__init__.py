"""The little of torch that Zeus's clients use, for tests without torch: one
process is one rank, and the first tells the others through a file."""

from . import cuda, distributed  # noqa: F401

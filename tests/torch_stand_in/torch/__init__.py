"""The little of torch that Zeus's pipeline frequency client uses, for tests without torch: one
process is one rank, and the first tells the others through a file."""

from . import cuda, distributed  # noqa: F401

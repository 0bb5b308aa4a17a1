"""In place of scikit-learn, whose import takes most of a short test: Zeus wants it for GPUs without an energy counter."""

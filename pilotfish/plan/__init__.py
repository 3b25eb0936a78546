"""The economics: what a pass costs by its rows, and how many draft nodes are worth their rows."""

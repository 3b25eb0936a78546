"""The machinery of decoding many requests at once: sequences, scheduling, rounds, counts."""

"""The machinery one folder down: weights, tokenizers, runtimes and the KV cache."""

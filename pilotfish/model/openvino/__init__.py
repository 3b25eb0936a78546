"""The OpenVINO runtime for CPUs: the decoder as a graph of plain ops, made paged by OpenVINO."""

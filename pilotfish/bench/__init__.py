"""Benchmarks: the plain run and the speculative runs of one invocation, interleaved, side by side.

    llm = LLM()
    bench = Bench(llm, BenchOptions(drafts=("suffix", "recycle")))
    result = bench.run(read_prompts(None, limit=1), SamplingParams(max_tokens=64))
    print(table(result))

Knows nothing of command lines.
"""

from pilotfish.bench.report import as_dict, table
from pilotfish.bench.run import Bench, BenchOptions, Result
from pilotfish.bench.workload import Prompt, read_prompts

__all__ = ["Bench", "BenchOptions", "Prompt", "Result", "as_dict", "read_prompts", "table"]

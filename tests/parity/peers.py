"""pilotfish beside other engines: the same model file, the same prompt ids, taking turns.

    pip install xllamacpp openvino-genai
    python -m tests.parity.peers --tokens 96 --repeat 3

Each engine writes the same number of greedy tokens, end-of-text ignored, one request at a time, without
reuse of earlier prompts. Decoding is what a long reply takes more than one of one token; the time to
first token is that of one token after a prompt of 512. Medians over prompts and repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from pilotfish import LLM, SamplingParams
from pilotfish.bench.workload import read_prompts, spread
from pilotfish.model.weights import embedded_path

Write = Callable[[Sequence[int], int], object]  # prompt ids, tokens to write
THREADS = 2
FIRST = 512  # tokens of the prompt whose first token is timed


def ours(draft: str, exactness: str | None = None) -> Write:
    llm = LLM(lasting=True, threads=THREADS, draft=draft, exactness=exactness)

    def write(ids: Sequence[int], tokens: int) -> object:
        return llm.generate(list(ids), SamplingParams(max_tokens=tokens, ignore_eos=True))

    return write


def llama_cpp() -> Write:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(embedded_path())
    params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 8192, 1, THREADS
    params.cpuparams_batch.n_threads = THREADS
    server = xllamacpp.Server(params)

    def write(ids: Sequence[int], tokens: int) -> object:
        asked = {"prompt": list(ids), "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        reply = server.handle_completions(asked | {"cache_prompt": False})
        assert reply["usage"]["completion_tokens"] == tokens, reply
        return reply

    return write


def openvino_genai() -> Write:
    import openvino
    import openvino_genai

    pipe = openvino_genai.LLMPipeline(str(embedded_path()), "CPU", INFERENCE_NUM_THREADS=THREADS)

    def write(ids: Sequence[int], tokens: int) -> object:
        asked = openvino_genai.GenerationConfig()
        asked.max_new_tokens, asked.do_sample, asked.ignore_eos = tokens, False, True
        row = np.array([ids], np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(row), openvino.Tensor(np.ones_like(row)))
        return pipe.generate(inputs, asked)

    return write


ENGINES: dict[str, Callable[[], Write]] = {
    "pilotfish, plain": lambda: ours("none"),
    "pilotfish, plain, numeric": lambda: ours("none", "numeric"),
    "pilotfish": lambda: ours("auto"),
    "llama.cpp (xllamacpp)": llama_cpp,
    "openvino-genai": openvino_genai,
}


def seconds(write: Write, ids: Sequence[int], tokens: int) -> float:
    began = time.perf_counter()
    write(ids, tokens)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=8)
    args = parser.parse_args()
    encoder = LLM(draft="none")
    prompts = [encoder.prompt_ids(prompt.turns[0]) for prompt in spread(read_prompts(None))]
    prompts = [ids for ids in prompts if len(ids) < 1000][: args.prompts]
    long = (prompts[0] * FIRST)[:FIRST]
    engines = {name: make() for name, make in ENGINES.items()}
    decode: dict[str, list[float]] = {name: [] for name in engines}
    first: dict[str, list[float]] = {name: [] for name in engines}
    for write in engines.values():
        write(prompts[0], 16)  # warm
    for _ in range(args.repeat):
        for ids in prompts:
            for name, write in engines.items():
                start = seconds(write, ids, 1)
                decode[name].append((seconds(write, ids, args.tokens) - start) / (args.tokens - 1))
        for name, write in engines.items():
            first[name].append(seconds(write, long, 1))
    print(f"{'':28}  ms a token  tokens/s  first token after {FIRST}, ms")
    for name in engines:
        token, start = median(decode[name]), median(first[name])
        print(f"{name:28}  {1e3 * token:10.1f}  {1 / token:8.1f}  {1e3 * start:24.0f}")


if __name__ == "__main__":
    main()

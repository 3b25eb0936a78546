"""The families of models that pilotfish runs, and how they differ: one table of traits.

    row = architecture("qwen3", where="config.json")
    row.head_norms, row.gguf_name

All of them are one decoder: norm, attention, add, norm, gated feed-forward, add. A row says what a
family adds to it. Sizes, windows and rotary positions are numbers of each model (see config.py); how
to add a family is in docs/architectures.md. Knows nothing of files or runtimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pilotfish.errors import BadModel

QUERY_KEY_VALUE = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
ATTENTION = (*QUERY_KEY_VALUE, "self_attn.o_proj")
FEED_FORWARD = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")

# config.json's name of an activation -> ours.
ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}

_GGUF_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

# Fields that change the arithmetic and are not built: for each, the values under which it changes
# nothing. Absent and null always count as that. Whatever adds tensors is refused by their names.
NOT_BUILT: Mapping[str, tuple[object, ...]] = {
    "partial_rotary_factor": (1.0,),
    "quantization_config": (),
    "attn_logit_softcapping": (),
    "final_logit_softcapping": (),
    "attention_multiplier": (),
    "embedding_multiplier": (1.0,),
    "residual_multiplier": (1.0,),
    "logits_scaling": (1.0,),
    "logit_scale": (1.0,),
    "num_local_experts": (0,),
    "num_experts": (0,),
    "is_encoder_decoder": (False,),
    "use_bidirectional_attention": (False,),
}
GGUF_NOT_BUILT: Mapping[str, tuple[object, ...]] = {
    "expert_count": (0,),
    "expert_used_count": (0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.clamp_kqv": (0.0,),
    "attn_logit_softcapping": (0.0,),
    "final_logit_softcapping": (0.0,),
    "attention.causal": (True,),
    "use_parallel_residual": (False,),
    "logit_scale": (1.0, 0.0),
    "residual_scale": (1.0, 0.0),
    "embedding_scale": (1.0, 0.0),
}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One family. Every default is the Llama way, so that a row states only what is different.

    biased            linear layers that always have a bias
    bias_fields       config.json fields that say whether linear layers have one
    head_norms        queries and keys are normed head by head before they are turned
    outer_norms       what attention and feed-forward give is normed before it is added
    norm_offset       folders store the weights of norms less this number
    tied              embedding and head are one, where config.json does not say
    scaled_embedding  embeddings are multiplied by the root of the hidden size
    window_field      config.json field that switches windows on: "sliding_window", where a number in it
                      does, or "use_sliding_window"; None: the family has none
    window            of a config.json that says nothing of it
    windows_from      where layers have windows: the first that has one, unless the file says which
    full_every        where layers have windows: every n-th has none (0: all have one), unless the file
                      says which
    unturned_every    every n-th layer has no rotary positions (0: all have), unless the file says which
    theta             rotary base where the file names none
    window_theta      rotary base of layers with a window; None: that of the others
    activation        of the gate in GGUF files, which do not name it
    carried           beginnings of tensors that such checkpoints carry for other uses
    gguf_name         `general.architecture` of GGUF files; None where there is no such kind
    gguf_interleaved  GGUF stores the rows of Q and K for interleaved rotary positions
    gguf_names        GGUF name -> ours of the parts of a layer, after "blk.N."
    """

    biased: tuple[str, ...] = ()
    bias_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    head_norms: bool = False
    outer_norms: bool = False
    norm_offset: float = 0.0
    tied: bool = False
    scaled_embedding: bool = False
    window_field: str | None = None
    window: int | None = None
    windows_from: int | None = None
    full_every: int = 0
    unturned_every: int = 0
    theta: float = 10_000.0
    window_theta: float | None = None
    activation: str = "silu"
    carried: tuple[str, ...] = ()
    gguf_name: str | None = None
    gguf_interleaved: bool = False
    gguf_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(_GGUF_NAMES))


_BOTH_BIASES = {"attention_bias": ATTENTION, "mlp_bias": FEED_FORWARD}

# The one place to widen. The key is the `model_type` of config.json.
ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "llama": Architecture(bias_fields=_BOTH_BIASES, gguf_name="llama", gguf_interleaved=True),
        # Its GGUF files say "llama".
        "mistral": Architecture(window_field="sliding_window", window=4096),
        "qwen2": Architecture(
            biased=QUERY_KEY_VALUE,
            window_field="use_sliding_window",
            windows_from=28,
            gguf_name="qwen2",
        ),
        "qwen3": Architecture(
            bias_fields={"attention_bias": ATTENTION},
            head_norms=True,
            window_field="use_sliding_window",
            windows_from=28,
            gguf_name="qwen3",
        ),
        "smollm3": Architecture(
            bias_fields=_BOTH_BIASES,
            window_field="use_sliding_window",
            tied=True,
            unturned_every=4,
            theta=2_000_000.0,
            gguf_name="smollm3",
            gguf_interleaved=True,
        ),
        "gemma3_text": Architecture(
            bias_fields={"attention_bias": ATTENTION},
            head_norms=True,
            outer_norms=True,
            norm_offset=1.0,
            tied=True,
            scaled_embedding=True,
            window_field="sliding_window",
            window=4096,
            full_every=6,
            theta=1_000_000.0,
            window_theta=10_000.0,
            activation="gelu_tanh",
            gguf_name="gemma3",
            gguf_names=_GGUF_NAMES
            | {
                "post_attention_norm": "post_attention_layernorm",
                "ffn_norm": "pre_feedforward_layernorm",
                "post_ffw_norm": "post_feedforward_layernorm",
            },
        ),
        # Qwen2 with layers behind it that predict several tokens.
        "mimo": Architecture(
            biased=QUERY_KEY_VALUE,
            window_field="use_sliding_window",
            windows_from=28,
            carried=("model.mtp_layers.",),
        ),
    }
)


def architecture(name: str, *, where: str) -> Architecture:
    """The row of a family; raises BadModel naming what was found and what is known."""
    if name not in ARCHITECTURES:
        raise _unknown(name, where, sorted(ARCHITECTURES))
    return ARCHITECTURES[name]


def gguf_architecture(name: str, *, where: str) -> str:
    """The family of a GGUF's `general.architecture`; raises BadModel as `architecture` does."""
    known = {row.gguf_name: family for family, row in ARCHITECTURES.items() if row.gguf_name}
    if name not in known:
        raise _unknown(name, where, sorted(known))
    return known[name]


def _unknown(name: str, where: str, known: list[str]) -> BadModel:
    return BadModel(
        f"{where}: the architecture is {name!r}; pilotfish runs {', '.join(known)}. Choose a model of these."
    )

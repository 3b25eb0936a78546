"""ModelConfig: the numbers that define a model, and the table of architectures pilotfish can run.

    config = checkpoint.config
    config.layers, config.kv_bytes_per_token(2)
    config.tensor_shapes()["model.norm.weight"]     # (576,)

Adding an architecture starts in ARCHITECTURES: its names in both file kinds, its tensors, and the
features of its configuration that are not built. Knows nothing of file formats, tokenizers or
runtimes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pilotfish.errors import BadModel

# Limits far above any model, so that a damaged number is refused instead of filling the memory.
MOST_LAYERS = 4096
MOST_WIDTH = 1 << 24

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of one decoder. Raises BadModel where the numbers cannot fit together.

    hidden        width of the residual stream
    intermediate  width of the feed-forward layer
    vocab         rows of the embedding (the tokenizer may use fewer)
    context       longest sequence the model was made for
    eos_ids       every id that ends a text, as the checkpoint declares them
    """

    architecture: str
    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    rms_eps: float
    rope_theta: float
    tied_embeddings: bool
    eos_ids: frozenset[int] = field(default_factory=frozenset)
    bos_id: int | None = None

    def __post_init__(self) -> None:
        architecture(self.architecture, where=self.name)
        sizes = ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab", "context")
        for size in sizes:
            limit = MOST_LAYERS if size == "layers" else MOST_WIDTH
            if not 1 <= getattr(self, size) <= limit:
                self._refuse(f"{size} is {getattr(self, size)}, expected 1 to {limit}")
        if self.heads % self.kv_heads:
            self._refuse(f"{self.heads} heads cannot share {self.kv_heads} key/value heads evenly")
        if self.head_dim % 2:
            self._refuse(f"head_dim is {self.head_dim}; rotary positions need an even number")
        for number in ("rms_eps", "rope_theta"):
            value = getattr(self, number)
            if not (math.isfinite(value) and value > 0):
                self._refuse(f"{number} is {value}, expected a positive number")
        for token in (*self.eos_ids, *(() if self.bos_id is None else (self.bos_id,))):
            if not 0 <= token < self.vocab:
                self._refuse(f"special token id {token} is outside the vocabulary of {self.vocab}")

    def _refuse(self, found: str) -> None:
        raise BadModel(f"{self.name}: {found}. The model's configuration is damaged; fetch it again.")

    @property
    def queries_per_kv_head(self) -> int:
        """How many query heads read one key/value head."""
        return self.heads // self.kv_heads

    def kv_bytes_per_token(self, bytes_per_value: float) -> int:
        """Cache bytes of one token over all layers, keys and values together."""
        return math.ceil(2 * self.layers * self.kv_heads * self.head_dim * bytes_per_value)

    @property
    def parameters(self) -> int:
        """Number of weights; a tied embedding counts once."""
        return sum(math.prod(shape) for shape in self.tensor_shapes().values())

    def tensor_shapes(self) -> Mapping[str, Shape]:
        """Every tensor the model needs, by its canonical (Hugging Face) name; matrices are [out, in]."""
        shapes: dict[str, Shape] = {
            "model.embed_tokens.weight": (self.vocab, self.hidden),
            "model.norm.weight": (self.hidden,),
        }
        if not self.tied_embeddings:
            shapes["lm_head.weight"] = (self.vocab, self.hidden)
        layer_shapes = architecture(self.architecture, where=self.name).layer_shapes(self)
        for layer in range(self.layers):
            for name, shape in layer_shapes.items():
                shapes[f"model.layers.{layer}.{name}"] = shape
        return shapes


def _llama_layer(config: ModelConfig) -> Mapping[str, Shape]:
    query = config.heads * config.head_dim
    key = config.kv_heads * config.head_dim
    return {
        "input_layernorm.weight": (config.hidden,),
        "self_attn.q_proj.weight": (query, config.hidden),
        "self_attn.k_proj.weight": (key, config.hidden),
        "self_attn.v_proj.weight": (key, config.hidden),
        "self_attn.o_proj.weight": (config.hidden, query),
        "post_attention_layernorm.weight": (config.hidden,),
        "mlp.gate_proj.weight": (config.intermediate, config.hidden),
        "mlp.up_proj.weight": (config.intermediate, config.hidden),
        "mlp.down_proj.weight": (config.hidden, config.intermediate),
    }


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What pilotfish must know about a family of models before it reads one.

    layer_shapes       the tensors of one layer, by their names after "model.layers.N."
    gguf_layer_names   GGUF name of each of them, after "blk.N."
    gguf_interleaved   GGUF stores the rows of Q and K for interleaved rotary positions
    not_built          config.json fields that change the arithmetic and are not built: for each,
                       the values under which it changes nothing
    gguf_not_built     the same for GGUF metadata, after the "<architecture>." prefix
    """

    layer_shapes: Callable[[ModelConfig], Mapping[str, Shape]]
    gguf_layer_names: Mapping[str, str]
    gguf_interleaved: bool
    not_built: Mapping[str, tuple[object, ...]]
    gguf_not_built: Mapping[str, tuple[object, ...]]


_LLAMA_GGUF_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}

# Absent and null always count as "changes nothing"; rotary settings are checked by their readers.
_NOT_BUILT: dict[str, tuple[object, ...]] = {
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "qkv_bias": (False,),
    "hidden_act": ("silu", "swish"),
    "sliding_window": (),
    "use_sliding_window": (False,),
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
}
_GGUF_NOT_BUILT: dict[str, tuple[object, ...]] = {
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (1.0, 0.0),
    "rope.scale_linear": (1.0, 0.0),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "attention.sliding_window": (0,),
    "attention.scale": (0.0,),
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

# The one place to widen: key = `model_type` of config.json and `general.architecture` of a GGUF.
ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "llama": Architecture(
            layer_shapes=_llama_layer,
            gguf_layer_names=_LLAMA_GGUF_NAMES,
            gguf_interleaved=True,
            not_built=_NOT_BUILT,
            gguf_not_built=_GGUF_NOT_BUILT,
        ),
    }
)


def architecture(name: str, *, where: str) -> Architecture:
    """The entry of an architecture; raises BadModel naming it and the known ones."""
    try:
        return ARCHITECTURES[name]
    except KeyError:
        known = ", ".join(sorted(ARCHITECTURES))
        raise BadModel(
            f"{where}: the architecture is {name!r}; pilotfish runs {known}. Choose a model of these."
        ) from None

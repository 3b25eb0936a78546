"""ModelConfig: the numbers that define a model.

    config = checkpoint.config
    config.layers, config.kv_bytes_per_token(2), config.windows[0]
    config.tensor_shapes()["model.norm.weight"]     # (576,)

What whole families have in common is in architectures.py. Knows nothing of file formats,
tokenizers or runtimes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotfish.errors import BadModel
from pilotfish.model.architectures import ACTIVATIONS, Architecture, architecture
from pilotfish.model.rotary import Rotary

# Limits far above any model, so that a damaged number is refused instead of filling the memory.
MOST_LAYERS = 4096
MOST_WIDTH = 1 << 24

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of one decoder. Raises BadModel where the numbers cannot fit together.

    hidden           width of the residual stream
    intermediate     width of the feed-forward layer
    vocab            rows of the embedding (the tokenizer may use fewer)
    context          longest sequence the model was made for
    rotaries         per layer: its rotary positions, or None for a layer without
    windows          per layer: how many tokens back attention sees, itself counted; None: all
    attention_scale  what queries times keys is multiplied by; None: 1 / sqrt(head_dim)
    activation       of the feed-forward gate: "silu" or "gelu_tanh"
    biased           the linear layers that have a bias, by their names within a layer
    eos_ids          every id that ends a text, as the checkpoint declares them
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
    rotaries: tuple[Rotary | None, ...]
    windows: tuple[int | None, ...]
    tied_embeddings: bool
    attention_scale: float | None = None
    activation: str = "silu"
    biased: frozenset[str] = frozenset()
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
        for name, value in (("rms_eps", self.rms_eps), ("attention_scale", self.scale)):
            if not (math.isfinite(value) and value > 0):
                self._refuse(f"{name} is {value}, expected a positive number")
        if self.activation not in ACTIVATIONS.values():
            self._refuse(f"the activation is {self.activation!r}, known are silu and gelu_tanh")
        self._check_layers()
        for token in (*self.eos_ids, *(() if self.bos_id is None else (self.bos_id,))):
            if not 0 <= token < self.vocab:
                self._refuse(f"special token id {token} is outside the vocabulary of {self.vocab}")

    def _check_layers(self) -> None:
        for name, found in (("rotaries", self.rotaries), ("windows", self.windows)):
            if len(found) != self.layers:
                self._refuse(f"{name} are given for {len(found)} of {self.layers} layers")
        for window in self.windows:
            if window is not None and not 1 <= window <= MOST_WIDTH:
                self._refuse(f"a sliding window is {window} tokens, expected 1 to {MOST_WIDTH}")
        for rotary in {rotary for rotary in self.rotaries if rotary is not None}:
            if len(rotary.divisors) not in (0, self.head_dim // 2):
                self._refuse(f"there are {len(rotary.divisors)} rotary divisors for heads of {self.head_dim}")
            if problem := rotary.problem():
                self._refuse(problem)

    def _refuse(self, found: str) -> None:
        raise BadModel(f"{self.name}: {found}. The model's configuration is damaged; fetch it again.")

    @property
    def traits(self) -> Architecture:
        """The row of the model's family."""
        return architecture(self.architecture, where=self.name)

    @property
    def scale(self) -> float:
        """What queries times keys is multiplied by."""
        return self.head_dim**-0.5 if self.attention_scale is None else self.attention_scale

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
        layer_shapes = self._layer_shapes()
        for layer in range(self.layers):
            for name, shape in layer_shapes.items():
                shapes[f"model.layers.{layer}.{name}"] = shape
        return shapes

    def _layer_shapes(self) -> Mapping[str, Shape]:
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        linear = {
            "self_attn.q_proj": (query, self.hidden),
            "self_attn.k_proj": (key, self.hidden),
            "self_attn.v_proj": (key, self.hidden),
            "self_attn.o_proj": (self.hidden, query),
            "mlp.gate_proj": (self.intermediate, self.hidden),
            "mlp.up_proj": (self.intermediate, self.hidden),
            "mlp.down_proj": (self.hidden, self.intermediate),
        }
        norms = {"input_layernorm": self.hidden, "post_attention_layernorm": self.hidden}
        if self.traits.outer_norms:
            norms |= {"pre_feedforward_layernorm": self.hidden, "post_feedforward_layernorm": self.hidden}
        if self.traits.head_norms:
            norms |= {"self_attn.q_norm": self.head_dim, "self_attn.k_norm": self.head_dim}
        shapes: dict[str, Shape] = {f"{name}.weight": shape for name, shape in linear.items()}
        shapes |= {f"{name}.weight": (width,) for name, width in norms.items()}
        return shapes | {f"{name}.bias": linear[name][:1] for name in linear if name in self.biased}

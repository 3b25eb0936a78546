"""The decoder as an OpenVINO model, from named tensors; one graph for all families of models.

`decoder` builds the stateful model (one batch, a growing cache); `paged` turns it into the model
that the runner compiles: ragged batches over a block cache, sliding windows, a gather of wanted rows
before the head, feature taps as extra results.

    model = paged(decoder(checkpoint, "int8"), checkpoint.config, taps=())

Knows nothing of blocks, sequences or threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import openvino as ov
import openvino.opset15 as ops
from openvino._offline_transformations import paged_attention_transformation
from openvino.op.util import Variable, VariableInfo

from pilotfish.model.config import ModelConfig
from pilotfish.model.openvino.forms import constant, in_form, stack
from pilotfish.model.rotary import Rotary
from pilotfish.model.weights import Checkpoint

FEATURE = "layer.{}.output"  # friendly name of the residual stream after a layer


def _parameter(name: str, shape: list[int], kind: ov.Type) -> ov.Node:
    node = ops.parameter(shape, kind, name=name)
    node.output(0).get_tensor().set_names({name})
    return node


@dataclass
class _Inputs:
    ids: ov.Node
    mask: ov.Node
    positions: ov.Node
    beams: ov.Node


@dataclass
class _Turns:
    """Cosines and sines of every position's angles, [batch, 1, token, head_dim]."""

    cos: ov.Node
    sin: ov.Node


class _Decoder:
    """Builds one model; the attributes are what every layer needs."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.config: ModelConfig = checkpoint.config
        self.constants: dict[tuple[object, ...], ov.Node] = {}
        self.inputs = self._parameters()
        self.turns = {rotary: self._turns(rotary) for rotary in {*self.config.rotaries} if rotary}
        self.sinks: list[ov.Node] = []

    def _parameters(self) -> _Inputs:
        return _Inputs(
            ids=_parameter("input_ids", [-1, -1], ov.Type.i64),
            mask=_parameter("attention_mask", [-1, -1], ov.Type.i64),
            positions=_parameter("position_ids", [-1, -1], ov.Type.i64),
            beams=_parameter("beam_idx", [-1], ov.Type.i32),
        )

    # Equal constants are one node: a third fewer nodes, and a quarter less time to compile.

    def _ints(self, *values: int) -> ov.Node:
        return self._shared(("i64", *values), np.array(values, np.int64))

    def _float(self, value: float) -> ov.Node:
        return self._shared(("f32", value), np.float32(value))

    def _shared(self, key: tuple[object, ...], value: np.ndarray | np.float32) -> ov.Node:
        if key not in self.constants:
            self.constants[key] = ops.constant(value)
        return self.constants[key]

    def _turns(self, rotary: Rotary) -> _Turns:
        inverse = rotary.inverse(self.config.head_dim)
        positions = ops.convert(ops.unsqueeze(self.inputs.positions, self._ints(1)), "f32")
        angles = ops.matmul(ops.constant(inverse.reshape(1, -1, 1)), positions, False, False)
        angles = ops.transpose(angles, self._ints(0, 2, 1))
        angles = ops.concat([angles, angles], -1)
        cos, sin = ops.cos(angles), ops.sin(angles)
        if rotary.magnitude != 1:
            cos, sin = (ops.multiply(part, self._float(rotary.magnitude)) for part in (cos, sin))
        return _Turns(ops.unsqueeze(cos, self._ints(1)), ops.unsqueeze(sin, self._ints(1)))

    def _linear(self, source: ov.Node, prefix: str, *names: str) -> ov.Node:
        """Several linear layers over one input, side by side."""
        names = tuple(f"{prefix}.{name}" for name in names)
        tensors = [self.checkpoint.tensor(f"{name}.weight") for name in names]
        product = ops.matmul(source, constant(stack(tensors)), False, True)
        biases = [self._bias(name, tensor.shape[0]) for name, tensor in zip(names, tensors, strict=True)]
        if not any(bias.any() for bias in biases):
            return product
        return ops.add(product, ops.constant(np.concatenate(biases)))

    def _bias(self, name: str, width: int) -> np.ndarray:
        if f"{name}.bias" not in self.checkpoint.entries:
            return np.zeros(width, np.float32)
        return self.checkpoint.tensor(f"{name}.bias").to_float32()

    def _norm(self, source: ov.Node, name: str) -> ov.Node:
        weight = ops.constant(self.checkpoint.tensor(f"{name}.weight").to_float32())
        square = ops.reduce_mean(ops.power(source, self._float(2)), self._ints(-1), True)
        root = ops.sqrt(ops.add(square, self._float(self.config.rms_eps)))
        return ops.multiply(weight, ops.multiply(source, ops.divide(self._float(1), root)))

    def _outer_norm(self, source: ov.Node, name: str) -> ov.Node:
        return self._norm(source, name) if self.config.traits.outer_norms else source

    def _heads(self, source: ov.Output, count: int) -> ov.Node:
        split = ops.reshape(source, self._ints(0, 0, count, self.config.head_dim), True)
        return ops.transpose(split, self._ints(0, 2, 1, 3))

    def _turned(self, source: ov.Output, count: int, layer: int, norm: str) -> ov.Node:
        """Queries or keys by heads, normed and turned as the family has it."""
        heads = self._heads(source, count)
        if self.config.traits.head_norms:
            heads = self._norm(heads, norm)
        rotary = self.config.rotaries[layer]
        if rotary is None:
            return heads
        # OpenVINO fuses exactly this to one RoPE node: VariadicSplit on axis 3 (not -1), Concat on axis -1.
        half, turns = self.config.head_dim // 2, self.turns[rotary]
        parts = ops.variadic_split(heads, ops.constant(np.int64(3)), self._ints(half, half))
        crossed = ops.concat([ops.multiply(parts.output(1), self._float(-1)), parts.output(0)], -1)
        return ops.add(ops.multiply(heads, turns.cos), ops.multiply(crossed, turns.sin))

    def _cached(self, current: ov.Node, name: str) -> ov.Node:
        """Append to the cache and widen key or value heads to query heads: [batch, head, token, dim]."""
        config = self.config
        info = VariableInfo()
        info.data_shape = ov.PartialShape([-1, config.kv_heads, -1, config.head_dim])
        info.data_type = ov.Type.f32
        info.variable_id = name
        variable = Variable(info)
        sizes = ops.concat([self._batch(), self._ints(config.kv_heads, 0, config.head_dim)], 0)
        stored = ops.read_value(ops.broadcast(self._float(0), sizes), variable)
        past = ops.gather(stored, self.inputs.beams, ops.constant(np.int64(0)))
        both = ops.concat([past, current], 2)
        self.sinks.append(ops.assign(both, variable))
        length = ops.gather(ops.shape_of(both, "i64"), self._ints(2), ops.constant(np.int64(0)))
        repeat = config.queries_per_kv_head
        wide = ops.concat(
            [self._batch(), self._ints(config.kv_heads, repeat), length, self._ints(config.head_dim)],
            0,
        )
        return ops.reshape(
            ops.broadcast(ops.unsqueeze(both, self._ints(2)), wide),
            self._ints(0, config.heads, -1, config.head_dim),
            True,
        )

    def _batch(self) -> ov.Node:
        """The batch size, [1]."""
        return ops.gather(ops.shape_of(self.inputs.ids, "i64"), self._ints(0), ops.constant(np.int64(0)))

    def _attention(self, source: ov.Node, layer: int, mask: ov.Node) -> ov.Node:
        config, prefix = self.config, f"model.layers.{layer}.self_attn"
        widths = [count * config.head_dim for count in (config.heads, config.kv_heads, config.kv_heads)]
        joint = self._linear(source, prefix, "q_proj", "k_proj", "v_proj")
        parts = ops.variadic_split(joint, ops.constant(np.int64(-1)), self._ints(*widths))
        query = self._turned(parts.output(0), config.heads, layer, f"{prefix}.q_norm")
        key = self._turned(parts.output(1), config.kv_heads, layer, f"{prefix}.k_norm")
        value = self._heads(parts.output(2), config.kv_heads)
        key, value = self._cached(key, f"key.{layer}"), self._cached(value, f"value.{layer}")
        mixed = ops.scaled_dot_product_attention(query, key, value, mask, self._float(config.scale))
        joined = ops.reshape(ops.transpose(mixed, self._ints(0, 2, 1, 3)), self._ints(0, 0, -1), True)
        return self._linear(joined, prefix, "o_proj")

    def _feed_forward(self, source: ov.Node, layer: int) -> ov.Node:
        prefix, width = f"model.layers.{layer}.mlp", self.config.intermediate
        both = self._linear(source, prefix, "gate_proj", "up_proj")
        parts = ops.variadic_split(both, ops.constant(np.int64(-1)), self._ints(width, width))
        gate = parts.output(0)
        opened = ops.swish(gate) if self.config.activation == "silu" else ops.gelu(gate, "tanh")
        return self._linear(ops.multiply(opened, parts.output(1)), prefix, "down_proj")

    def _layer(self, stream: ov.Node, layer: int, mask: ov.Node) -> ov.Node:
        prefix = f"model.layers.{layer}"
        inner = "pre_feedforward" if self.config.traits.outer_norms else "post_attention"
        attended = self._attention(self._norm(stream, f"{prefix}.input_layernorm"), layer, mask)
        stream = ops.add(stream, self._outer_norm(attended, f"{prefix}.post_attention_layernorm"))
        fed = self._feed_forward(self._norm(stream, f"{prefix}.{inner}_layernorm"), layer)
        stream = ops.add(stream, self._outer_norm(fed, f"{prefix}.post_feedforward_layernorm"))
        stream.set_friendly_name(FEATURE.format(layer))
        return stream

    def build(self) -> ov.Model:
        embedding = constant(self.checkpoint.tensor("model.embed_tokens.weight"))
        ids = ops.convert(self.inputs.ids, "i32")
        stream = ops.gather(embedding, ids, ops.constant(np.int32(0)))
        if self.config.traits.scaled_embedding:
            stream = ops.multiply(stream, self._float(self.config.hidden**0.5))
        seen = ops.convert(
            ops.unsqueeze(ops.unsqueeze(self.inputs.mask, self._ints(1)), self._ints(1)), "f32"
        )
        # Only the shape matters: the paged transformation puts its own causal mask in place of it.
        mask = ops.multiply(ops.subtract(seen, self._float(1)), self._float(1e9))
        for layer in range(self.config.layers):
            stream = self._layer(stream, layer, mask)
        logits = self._head(self._norm(stream, "model.norm"))
        result = ops.result(logits)
        result.output(0).get_tensor().set_names({"logits"})
        inputs = self.inputs
        parameters = [inputs.ids, inputs.mask, inputs.positions, inputs.beams]
        return ov.Model([result], self.sinks, parameters, self.config.name)

    def _head(self, source: ov.Node) -> ov.Node:
        name = "model.embed_tokens.weight" if self.config.tied_embeddings else "lm_head.weight"
        return ops.matmul(source, constant(self.checkpoint.tensor(name)), False, True)


def decoder(checkpoint: Checkpoint, form: str) -> ov.Model:
    """The stateful decoder with weights in a form of `forms.FORMS`; logits for every token.

    This is the model to save: OpenVINO cannot read a paged model back.
    """
    return _Decoder(in_form(checkpoint, form)).build()


def paged(model: ov.Model, config: ModelConfig, taps: Sequence[int]) -> ov.Model:
    """Turn a stateful decoder into the paged model, in place.

    Inputs after it: input_ids and position_ids [token], past_lens, subsequence_begins,
    block_indices, block_indices_begins, max_context_len, key_cache.N and value_cache.N, and
    `rows` [row], the tokens whose logits are wanted. Results: logits [row, vocab], then one
    [token, hidden] per tapped layer.
    """
    features = {node.get_friendly_name(): node for node in model.get_ops()}
    paged_attention_transformation(model)
    _limit_windows(model, config)
    head = model.get_results()[0].input_value(0).get_node()
    while head.get_type_name() != "MatMul":
        head = head.input_value(0).get_node()
    rows = _parameter("rows", [-1], ov.Type.i64)
    wanted = ops.gather(head.input_value(0), rows, ops.constant(np.int64(0)))
    head.input(0).replace_source_output(wanted.output(0))
    model.add_parameters([rows])
    for layer in taps:
        tap = ops.result(features[FEATURE.format(layer)])
        tap.output(0).get_tensor().set_names({FEATURE.format(layer)})
        model.add_results([tap])
    model.validate_nodes_and_infer_types()
    return model


# Inputs of the paged attention operation.
_KEY_CACHE, _WINDOW = 3, 10
_TABLES = {"past_lens": 5, "block_indices": 7, "block_indices_begins": 8, "max_context_len": 12}


def windowed(window: int, name: str) -> str:
    """The input `name` of layers with this window, who are shown only the blocks that they see."""
    return f"window.{window}.{name}"


def _limit_windows(model: ov.Model, config: ModelConfig) -> None:
    """Layers with a window get it as a constant, and block tables of their own: blocks that no token of a
    pass sees any more cost nothing then. (The window alone saves no time.)"""
    added: dict[int, dict[str, ov.Node]] = {}
    for node in model.get_ops():
        if node.get_type_name() != "PagedAttentionExtension":
            continue
        cache = node.input_value(_KEY_CACHE).get_node().get_friendly_name()
        window = config.windows[int(cache.rpartition(".")[2])]
        if window is None:
            continue
        if window not in added:
            shapes = {name: [] if name == "max_context_len" else [-1] for name in _TABLES}
            added[window] = {
                name: _parameter(windowed(window, name), shape, ov.Type.i32) for name, shape in shapes.items()
            }
            model.add_parameters(list(added[window].values()))
        node.input(_WINDOW).replace_source_output(ops.constant(np.int32(window)).output(0))
        for name, place in _TABLES.items():
            node.input(place).replace_source_output(added[window][name].output(0))

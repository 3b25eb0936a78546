"""The Llama decoder as an OpenVINO model, from named tensors.

`decoder` builds the stateful model (one batch, a growing cache); `paged` turns it into the model
that the runner compiles: ragged batches over a block cache, a gather of wanted rows before the
head, feature taps as extra results.

    model = paged(decoder(checkpoint, "int8"), taps=())

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
from pilotfish.model.openvino.forms import constant, stack
from pilotfish.model.weights import Checkpoint

FEATURE = "layer.{}.output"  # friendly name of the residual stream after a layer


def _ints(*values: int) -> ov.Node:
    return ops.constant(np.array(values, np.int64))


def _float(value: float) -> ov.Node:
    return ops.constant(np.float32(value))


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


class _Decoder:
    """Builds one model; the attributes are what every layer needs."""

    def __init__(self, checkpoint: Checkpoint, form: str) -> None:
        self.checkpoint = checkpoint
        self.config: ModelConfig = checkpoint.config
        self.form = form
        self.inputs = self._parameters()
        self.cos, self.sin = self._rotations()
        self.sinks: list[ov.Node] = []

    def _parameters(self) -> _Inputs:
        return _Inputs(
            ids=_parameter("input_ids", [-1, -1], ov.Type.i64),
            mask=_parameter("attention_mask", [-1, -1], ov.Type.i64),
            positions=_parameter("position_ids", [-1, -1], ov.Type.i64),
            beams=_parameter("beam_idx", [-1], ov.Type.i32),
        )

    def _rotations(self) -> tuple[ov.Node, ov.Node]:
        width = self.config.head_dim
        steps = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
        inverse = (np.float32(1) / np.float32(self.config.rope_theta) ** steps).astype(np.float32)
        positions = ops.convert(ops.unsqueeze(self.inputs.positions, _ints(1)), "f32")
        angles = ops.matmul(ops.constant(inverse.reshape(1, -1, 1)), positions, False, False)
        angles = ops.transpose(angles, _ints(0, 2, 1))
        angles = ops.concat([angles, angles], -1)
        return ops.unsqueeze(ops.cos(angles), _ints(1)), ops.unsqueeze(ops.sin(angles), _ints(1))

    def _linear(self, source: ov.Node, *names: str) -> ov.Node:
        tensors = [self.checkpoint.tensor(name) for name in names]
        return ops.matmul(source, constant(stack(tensors), self.form), False, True)

    def _norm(self, source: ov.Node, name: str) -> ov.Node:
        weight = ops.constant(self.checkpoint.tensor(name).to_float32())
        square = ops.reduce_mean(ops.power(source, _float(2)), _ints(-1), True)
        root = ops.sqrt(ops.add(square, _float(self.config.rms_eps)))
        return ops.multiply(weight, ops.multiply(source, ops.divide(_float(1), root)))

    def _heads(self, source: ov.Output, count: int) -> ov.Node:
        split = ops.reshape(source, _ints(0, 0, count, self.config.head_dim), True)
        return ops.transpose(split, _ints(0, 2, 1, 3))

    def _rotate(self, source: ov.Node) -> ov.Node:
        # VariadicSplit and Concat on the last axis is the form that OpenVINO fuses to one RoPE node.
        half = self.config.head_dim // 2
        parts = ops.variadic_split(source, ops.constant(np.int64(-1)), _ints(half, half))
        turned = ops.concat([ops.multiply(parts.output(1), _float(-1)), parts.output(0)], -1)
        return ops.add(ops.multiply(source, self.cos), ops.multiply(turned, self.sin))

    def _cached(self, current: ov.Node, name: str) -> ov.Node:
        """Append to the cache and widen key or value heads to query heads: [batch, head, token, dim]."""
        config = self.config
        info = VariableInfo()
        info.data_shape = ov.PartialShape([-1, config.kv_heads, -1, config.head_dim])
        info.data_type = ov.Type.f32
        info.variable_id = name
        variable = Variable(info)
        sizes = ops.concat([self._batch(), _ints(config.kv_heads, 0, config.head_dim)], 0)
        stored = ops.read_value(ops.broadcast(_float(0), sizes), variable)
        past = ops.gather(stored, self.inputs.beams, ops.constant(np.int64(0)))
        both = ops.concat([past, current], 2)
        self.sinks.append(ops.assign(both, variable))
        length = ops.gather(ops.shape_of(both, "i64"), _ints(2), ops.constant(np.int64(0)))
        repeat = config.heads // config.kv_heads
        wide = ops.concat([self._batch(), _ints(config.kv_heads, repeat), length, _ints(config.head_dim)], 0)
        return ops.reshape(
            ops.broadcast(ops.unsqueeze(both, _ints(2)), wide),
            _ints(0, config.heads, -1, config.head_dim),
            True,
        )

    def _batch(self) -> ov.Node:
        """The batch size, [1]."""
        return ops.gather(ops.shape_of(self.inputs.ids, "i64"), _ints(0), ops.constant(np.int64(0)))

    def _attention(self, source: ov.Node, layer: int, mask: ov.Node) -> ov.Node:
        config, prefix = self.config, f"model.layers.{layer}.self_attn"
        names = [f"{prefix}.{part}_proj.weight" for part in "qkv"]
        widths = [count * config.head_dim for count in (config.heads, config.kv_heads, config.kv_heads)]
        parts = ops.variadic_split(self._linear(source, *names), ops.constant(np.int64(-1)), _ints(*widths))
        query = self._rotate(self._heads(parts.output(0), config.heads))
        key = self._cached(self._rotate(self._heads(parts.output(1), config.kv_heads)), f"key.{layer}")
        value = self._cached(self._heads(parts.output(2), config.kv_heads), f"value.{layer}")
        scale = _float(config.head_dim**-0.5)
        mixed = ops.scaled_dot_product_attention(query, key, value, mask, scale)
        joined = ops.reshape(ops.transpose(mixed, _ints(0, 2, 1, 3)), _ints(0, 0, -1), True)
        return self._linear(joined, f"{prefix}.o_proj.weight")

    def _feed_forward(self, source: ov.Node, layer: int) -> ov.Node:
        prefix, width = f"model.layers.{layer}.mlp", self.config.intermediate
        both = self._linear(source, f"{prefix}.gate_proj.weight", f"{prefix}.up_proj.weight")
        parts = ops.variadic_split(both, ops.constant(np.int64(-1)), _ints(width, width))
        gated = ops.multiply(ops.swish(parts.output(0)), parts.output(1))
        return self._linear(gated, f"{prefix}.down_proj.weight")

    def build(self) -> ov.Model:
        embedding = constant(self.checkpoint.tensor("model.embed_tokens.weight"), self.form)
        ids = ops.convert(self.inputs.ids, "i32")
        stream = ops.gather(embedding, ids, ops.constant(np.int32(0)))
        seen = ops.convert(ops.unsqueeze(ops.unsqueeze(self.inputs.mask, _ints(1)), _ints(1)), "f32")
        # Only the shape matters: the paged transformation puts its own causal mask in place of it.
        mask = ops.multiply(ops.subtract(seen, _float(1)), _float(1e9))
        for layer in range(self.config.layers):
            prefix = f"model.layers.{layer}"
            normed = self._norm(stream, f"{prefix}.input_layernorm.weight")
            stream = ops.add(stream, self._attention(normed, layer, mask))
            normed = self._norm(stream, f"{prefix}.post_attention_layernorm.weight")
            stream = ops.add(stream, self._feed_forward(normed, layer))
            stream.set_friendly_name(FEATURE.format(layer))
        logits = self._head(self._norm(stream, "model.norm.weight"))
        result = ops.result(logits)
        result.output(0).get_tensor().set_names({"logits"})
        inputs = self.inputs
        parameters = [inputs.ids, inputs.mask, inputs.positions, inputs.beams]
        return ov.Model([result], self.sinks, parameters, self.config.name)

    def _head(self, source: ov.Node) -> ov.Node:
        name = "model.embed_tokens.weight" if self.config.tied_embeddings else "lm_head.weight"
        return ops.matmul(source, constant(self.checkpoint.tensor(name), self.form), False, True)


def decoder(checkpoint: Checkpoint, form: str) -> ov.Model:
    """The stateful decoder with weights in a form of `forms.FORMS`; logits for every token.

    This is the model to save: OpenVINO cannot read a paged model back.
    """
    return _Decoder(checkpoint, form).build()


def paged(model: ov.Model, taps: Sequence[int]) -> ov.Model:
    """Turn a stateful decoder into the paged model, in place.

    Inputs after it: input_ids and position_ids [token], past_lens, subsequence_begins,
    block_indices, block_indices_begins, max_context_len, key_cache.N and value_cache.N, and
    `rows` [row], the tokens whose logits are wanted. Results: logits [row, vocab], then one
    [token, hidden] per tapped layer.
    """
    features = {node.get_friendly_name(): node for node in model.get_ops()}
    paged_attention_transformation(model)
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

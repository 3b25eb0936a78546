"""gguf_config: the header of a GGUF file -> ModelConfig.

    gguf_config(GgufFile.read(Path("model.gguf"))).layers

A GGUF names its family and its sizes; windows of single layers, and which layers have no rotary
positions, are rules of the family. Knows nothing of tensors but the embedding's size, which biases
there are and the table of rotary divisors.
"""

from __future__ import annotations

from pilotfish.errors import BadModel
from pilotfish.model.architectures import GGUF_NOT_BUILT, Architecture, architecture, gguf_architecture
from pilotfish.model.config import MOST_LAYERS, ModelConfig
from pilotfish.model.rotary import Rotary, yarn_magnitude
from pilotfish.model.weights.fields import Fields
from pilotfish.model.weights.gguf_file import GgufFile
from pilotfish.model.weights.unpack import unpack

END_IDS = ("eos_token_id", "eot_token_id", "eom_token_id")
DIVISORS = "rope_freqs.weight"  # a table of rotary divisors, as a tensor


def gguf_config(file: GgufFile) -> ModelConfig:
    """The configuration a GGUF header declares. Raises BadModel for what is missing or not built."""
    fields = Fields(file.metadata, where=str(file.path))
    prefix = fields.text("general.architecture")
    family = gguf_architecture(prefix, where=str(file.path))
    row = architecture(family, where=str(file.path))
    fields.refuse_unbuilt(GGUF_NOT_BUILT, prefix=f"{prefix}.")
    heads = fields.integer(f"{prefix}.attention.head_count")
    hidden = fields.integer(f"{prefix}.embedding_length")
    head_dim = fields.integer(f"{prefix}.attention.key_length", default=hidden // max(1, heads))
    _check_rotary(fields, prefix, head_dim)
    embedding = file.tensors.get("token_embd.weight")
    vocab = embedding.shape[0] if embedding is not None else 0
    ends = [fields.ids(f"tokenizer.ggml.{name}") for name in END_IDS]
    first = "tokenizer.ggml.bos_token_id"
    windows = _windows(fields, prefix, row)
    return ModelConfig(
        architecture=family,
        name=fields.text("general.name", default=file.path.stem),
        layers=len(windows),
        hidden=hidden,
        intermediate=fields.integer(f"{prefix}.feed_forward_length"),
        heads=heads,
        kv_heads=fields.integer(f"{prefix}.attention.head_count_kv", default=heads),
        head_dim=head_dim,
        vocab=fields.integer(f"{prefix}.vocab_size", default=vocab),
        context=fields.integer(f"{prefix}.context_length"),
        rms_eps=fields.number(f"{prefix}.attention.layer_norm_rms_epsilon"),
        rotaries=_rotaries(fields, prefix, row, windows, divisors=_divisors(file)),
        windows=windows,
        attention_scale=_scale(fields, prefix, len(windows), hidden / max(1, heads)),
        activation=row.activation,
        biased=_biased(file, row),
        tied_embeddings="output.weight" not in file.tensors,
        eos_ids=frozenset().union(*ends),
        bos_id=fields.integer(first) if fields.has(first) else None,
    )


def _check_rotary(fields: Fields, prefix: str, head_dim: int) -> None:
    """Positions must turn whole heads, and keys and values must be equally wide."""
    for name in (f"{prefix}.rope.dimension_count", f"{prefix}.attention.value_length"):
        if fields.integer(name, default=head_dim) != head_dim:
            raise BadModel(
                f"{fields.where}: {name} is {fields.values[name]} with heads of {head_dim}, which pilotfish"
                " has not built. Choose a model where they agree."
            )


def _scale(fields: Fields, prefix: str, layers: int, share: float) -> float | None:
    """What queries times keys is multiplied by, where it is not 1 / sqrt(head_dim)."""
    if prefix == "gemma3" and layers == 62:  # the 27B model scales by its share of the stream, unsaid
        return float(share**-0.5)
    return fields.number(f"{prefix}.attention.scale", default=0.0) or None


def _biased(file: GgufFile, row: Architecture) -> frozenset[str]:
    """The linear layers for which the file has a bias: those that the family may have."""
    allowed = {*row.biased, *(name for names in row.bias_fields.values() for name in names)}
    return frozenset(
        ours
        for stored, ours in row.gguf_names.items()
        if ours in allowed and f"blk.0.{stored}.bias" in file.tensors
    )


def _windows(fields: Fields, prefix: str, row: Architecture) -> tuple[int | None, ...]:
    layers = fields.integer(f"{prefix}.block_count")
    if not 1 <= layers <= MOST_LAYERS:
        raise BadModel(f"{fields.where}: {prefix}.block_count is {layers}. Fetch the model again.")
    if row.window_field != "sliding_window":
        fields.refuse_unbuilt({"attention.sliding_window": (0,)}, prefix=f"{prefix}.")
        return (None,) * layers
    window = fields.integer(f"{prefix}.attention.sliding_window")
    every = fields.integer(f"{prefix}.attention.sliding_window_pattern", default=row.full_every)
    return tuple(window if every == 0 or (layer + 1) % every else None for layer in range(layers))


def _rotaries(
    fields: Fields,
    prefix: str,
    row: Architecture,
    windows: tuple[int | None, ...],
    *,
    divisors: tuple[float, ...],
) -> tuple[Rotary | None, ...]:
    full = _rotary(fields, f"{prefix}.rope.", row, divisors)
    local = full
    if row.window_theta is not None:
        local = Rotary(theta=fields.number(f"{prefix}.rope.freq_base_swa", default=row.window_theta))
    every = row.unturned_every
    return tuple(
        None if every and (layer + 1) % every == 0 else full if window is None else local
        for layer, window in enumerate(windows)
    )


def _rotary(fields: Fields, prefix: str, row: Architecture, divisors: tuple[float, ...]) -> Rotary:
    theta = fields.number(f"{prefix}freq_base", default=row.theta)
    # Old files have one number and no name for it.
    factor = fields.number(f"{prefix}scaling.factor", default=0.0)
    factor = factor or fields.number(f"{prefix}scale_linear", default=0.0) or 1.0
    kind = fields.text(f"{prefix}scaling.type", default="none" if factor == 1 else "linear")
    if divisors and (kind != "none" or factor != 1):
        raise BadModel(
            f"{fields.where}: it has both a table of rotary divisors and {kind!r} scaling, which pilotfish"
            " has not built. Convert the model again."
        )
    if kind == "none":
        return Rotary(theta=theta, divisors=divisors)
    if kind == "linear":
        return Rotary(theta=theta, kind=kind, factor=factor)
    if kind != "yarn":
        raise BadModel(
            f"{fields.where}: {prefix}scaling.type is {kind!r}, which pilotfish has not built (it runs"
            " none, linear, yarn). Choose a model with one of these."
        )
    return Rotary(
        theta=theta,
        kind=kind,
        factor=factor,
        original=fields.integer(f"{prefix}scaling.original_context_length"),
        low=fields.number(f"{prefix}scaling.yarn_beta_slow", default=1.0),
        high=fields.number(f"{prefix}scaling.yarn_beta_fast", default=32.0),
        magnitude=yarn_magnitude(factor) * fields.number(f"{prefix}scaling.attn_factor", default=1.0),
    )


def _divisors(file: GgufFile) -> tuple[float, ...]:
    if DIVISORS not in file.tensors:
        return ()
    values = unpack(file.raw(DIVISORS), file.tensors[DIVISORS].kind).to_float32()
    return tuple(float(value) for value in values.ravel())

"""folder_config: config.json of a Hugging Face folder -> ModelConfig.

    folder_config(Path("~/models/SmolLM2-135M").expanduser()).layers

Reads both generations of config.json (`rope_theta` and `rope_scaling`, or `rope_parameters`). What it
says nothing of has the family's default. Knows nothing of tensors.
"""

from __future__ import annotations

from pathlib import Path

from pilotfish.errors import BadModel
from pilotfish.model.architectures import ACTIVATIONS, NOT_BUILT, Architecture, architecture
from pilotfish.model.config import MOST_LAYERS, ModelConfig
from pilotfish.model.rotary import KINDS, Rotary, yarn_magnitude
from pilotfish.model.weights.fields import Fields, read_json

FULL, SLIDING = "full_attention", "sliding_attention"
SCALINGS = ("rope_parameters", "rope_scaling")


def folder_config(path: Path) -> ModelConfig:
    """What config.json declares. Raises BadModel for what is missing or not built."""
    fields = read_json(path / "config.json")
    family = fields.text("model_type")
    row = architecture(family, where=fields.where)
    fields.refuse_unbuilt(NOT_BUILT)
    heads, hidden = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    head_dim = fields.integer("head_dim", default=hidden // max(1, heads))
    windows = _windows(fields, row)
    scalar = fields.number("query_pre_attn_scalar", default=head_dim)
    return ModelConfig(
        architecture=family,
        name=folder_name(path),
        layers=len(windows),
        hidden=hidden,
        intermediate=fields.integer("intermediate_size"),
        heads=heads,
        kv_heads=fields.integer("num_key_value_heads", default=heads),
        head_dim=head_dim,
        vocab=fields.integer("vocab_size"),
        context=fields.integer("max_position_embeddings"),
        rms_eps=fields.number("rms_norm_eps"),
        rotaries=_rotaries(fields, row, windows),
        windows=windows,
        # What is no scale is refused with the other numbers.
        attention_scale=None if scalar == head_dim else scalar**-0.5 if scalar > 0 else 0.0,
        activation=_activation(fields),
        biased=_biased(fields, row),
        tied_embeddings=fields.boolean("tie_word_embeddings", default=row.tied),
        eos_ids=_eos_ids(path, fields),
        bos_id=fields.integer("bos_token_id") if fields.has("bos_token_id") else None,
    )


def folder_name(path: Path) -> str:
    """What to call a model: its folder, or "org/name" where that lies in the hub's cache."""
    folder = path.resolve()
    if folder.parent.name == "snapshots":
        return folder.parents[1].name.removeprefix("models--").replace("--", "/")
    return folder.name


def _activation(fields: Fields) -> str:
    name = fields.text("hidden_activation" if fields.has("hidden_activation") else "hidden_act")
    if name not in ACTIVATIONS:
        raise BadModel(
            f"{fields.where}: the activation is {name!r}, which pilotfish has not built (it runs"
            f" {', '.join(ACTIVATIONS)}). Choose another model."
        )
    return ACTIVATIONS[name]


def _biased(fields: Fields, row: Architecture) -> frozenset[str]:
    asked = [names for name, names in row.bias_fields.items() if fields.boolean(name, default=False)]
    return frozenset(row.biased).union(*asked)


def _layers(fields: Fields) -> int:
    """The number of layers; one that no model has must not fill the memory with plans for them."""
    layers = fields.integer("num_hidden_layers")
    if not 1 <= layers <= MOST_LAYERS:
        raise BadModel(f"{fields.where}: num_hidden_layers is {layers}. Fetch the model again.")
    return layers


def _windows(fields: Fields, row: Architecture) -> tuple[int | None, ...]:
    """Per layer: its sliding window, or None."""
    layers = _layers(fields)
    window = _window(fields, row)
    if window is None:
        return (None,) * layers
    if fields.has("layer_types"):
        kinds = fields.listing("layer_types")
        if len(kinds) != layers or any(kind not in (FULL, SLIDING) for kind in kinds):
            raise BadModel(
                f"{fields.where}: layer_types must name {FULL} or {SLIDING} for each of {layers} layers,"
                f" found {len(kinds)}: {sorted(set(map(str, kinds)))}. Choose another model."
            )
        slides = [kind == SLIDING for kind in kinds]
    elif row.windows_from is not None:
        first = fields.integer("max_window_layers", default=row.windows_from)
        slides = [layer >= first for layer in range(layers)]
    elif row.unturned_every:
        slides = [not turn for turn in _turned(fields, row, layers)]
    else:
        every = fields.integer("sliding_window_pattern", default=row.full_every)
        slides = [every == 0 or (layer + 1) % every != 0 for layer in range(layers)]
    return tuple(window if slide else None for slide in slides)


def _window(fields: Fields, row: Architecture) -> int | None:
    if row.window_field is None:
        fields.refuse_unbuilt({"sliding_window": (), "use_sliding_window": (False,)})
        return None
    if row.window_field == "use_sliding_window":
        used = fields.boolean("use_sliding_window", default=False)
        return fields.integer("sliding_window") if used and fields.has("sliding_window") else None
    if "sliding_window" in fields.values and not fields.has("sliding_window"):
        return None
    return fields.integer("sliding_window", default=row.window)


def _rotaries(
    fields: Fields, row: Architecture, windows: tuple[int | None, ...]
) -> tuple[Rotary | None, ...]:
    """Per layer: its rotary positions, or None."""
    name = _scaling(fields)
    found = fields.values.get(name)
    full_theta = sliding_theta = fields.number("rope_theta", default=row.theta)
    if row.window_theta is not None:
        sliding_theta = fields.number("rope_local_base_freq", default=row.window_theta)
    if isinstance(found, dict) and (FULL in found or SLIDING in found):
        full = _rotary(fields, found.get(FULL), full_theta, name)
        sliding = _rotary(fields, found.get(SLIDING), sliding_theta, name)
    else:
        full = _rotary(fields, found, full_theta, name)
        sliding = full if row.window_theta is None else Rotary(theta=sliding_theta)
    turned = _turned(fields, row, len(windows))
    return tuple(
        (full if window is None else sliding) if turn else None
        for window, turn in zip(windows, turned, strict=True)
    )


def _scaling(fields: Fields) -> str:
    """The field that holds the rotary settings."""
    given = [name for name in SCALINGS if fields.has(name)]
    if len(given) == 2 and fields.values[given[0]] != fields.values[given[1]]:
        raise BadModel(
            f"{fields.where}: rope_parameters and rope_scaling say different things, and readers differ in"
            " which they follow. Take the wrong one out."
        )
    return given[0] if given else SCALINGS[0]


def _turned(fields: Fields, row: Architecture, layers: int) -> list[bool]:
    """Which layers have rotary positions."""
    if not row.unturned_every:
        return [True] * layers
    if fields.has("no_rope_layers"):
        found = fields.listing("no_rope_layers")
        if len(found) < layers or any(value not in (0, 1) for value in found):
            raise BadModel(
                f"{fields.where}: no_rope_layers must be 0 or 1 for each of {layers} layers, found"
                f" {len(found)} entries: {found!r:.80}. Fetch the model again."
            )
        return [value == 1 for value in found[:layers]]
    every = fields.integer("no_rope_layer_interval", default=row.unturned_every)
    if every < 1:
        raise BadModel(
            f"{fields.where}: no_rope_layer_interval is {every}, expected 1 or more. Fetch it again."
        )
    return [(layer + 1) % every != 0 for layer in range(layers)]


def _rotary(fields: Fields, value: object, theta: float, name: str) -> Rotary:
    """One table of rotary settings, of either generation; null means the plain kind."""
    if value is not None and not isinstance(value, dict):
        raise BadModel(f"{fields.where}: {name} is {value!r:.80}, expected a table. Fetch it again.")
    inner = Fields(value or {}, where=f"{fields.where}: {name}")
    kind = inner.text("rope_type", default=inner.text("type", default="default"))
    if kind not in KINDS:
        raise BadModel(
            f"{fields.where}: {name} asks for {kind!r}, which pilotfish has not built (it runs"
            f" {', '.join(KINDS)}). Choose a model with one of these."
        )
    inner.refuse_unbuilt({"partial_rotary_factor": (1.0,)})
    theta = inner.number("rope_theta", default=theta)
    if kind == "default":
        return Rotary(theta=theta)
    factor = inner.number("factor")
    context = fields.integer("max_position_embeddings")
    original = inner.integer("original_max_position_embeddings", default=context)
    if kind == "linear":
        return Rotary(theta=theta, kind=kind, factor=factor)
    if kind == "llama3":
        low, high = inner.number("low_freq_factor"), inner.number("high_freq_factor")
        return Rotary(theta=theta, kind=kind, factor=factor, original=original, low=low, high=high)
    return Rotary(
        theta=theta,
        kind=kind,
        factor=factor,
        original=original,
        low=inner.number("beta_slow", default=1.0),
        high=inner.number("beta_fast", default=32.0),
        rounded=inner.boolean("truncate", default=True),
        magnitude=_magnitude(inner, factor),
    )


def _magnitude(inner: Fields, factor: float) -> float:
    if inner.has("attention_factor"):
        return inner.number("attention_factor")
    if inner.has("mscale") and inner.has("mscale_all_dim"):
        top, bottom = inner.number("mscale"), inner.number("mscale_all_dim")
        if top and bottom:
            return yarn_magnitude(factor, top) / yarn_magnitude(factor, bottom)
    return yarn_magnitude(factor)


def _eos_ids(path: Path, config: Fields) -> frozenset[int]:
    """generation_config.json decides where it says something, as in transformers."""
    if (path / "generation_config.json").is_file():
        found = read_json(path / "generation_config.json").ids("eos_token_id")
        if found:
            return found
    return config.ids("eos_token_id")

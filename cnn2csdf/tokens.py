"""Rewriting of attention to feature maps with one token per row.

Model files write attention with matrices (tokens x width), split into heads by reshapes and
transpositions. Here each matrix becomes a feature map of one column: rows are tokens, channels
are the numbers of a token, and the bytes in memory are the same. A reshape or transposition then
moves no element: it only changes the index map of its result (cnn2csdf.index_maps). For 8 tokens
of width 4 and 2 heads:

    query  8 x 4                      feature map of 8 rows, 1 column, 4 channels
    Reshape 8 x 2 x 2                 no layer; heads are channel // 2
    Transpose to heads x 8 x 2        no layer; dims are (heads, tokens, numbers)
    MatMul with the keys              a product head by head, one row of scores for each token

Products with weights become 1x1 convolutions; products of two tensors are computed head by head.
Each layer then needs one input row per output row, or all rows of keys and values, so it can be
fused and streamed like a convolution. Scores, softmax and weighted values are computed as in the
file: the result does not change.

A tensor that repeats a smaller one, such as a mask for each head, has two forms in the draft. Its layer
repeats the elements for consumers that need all of them (`mapped`); broadcasts read the smaller tensor
instead (`unrepeated`), and a layer without consumers is left out.

`tokens_as_rows` offers each layer to the rules of cnn2csdf.token_moves and cnn2csdf.token_arithmetic. A
rule adds the layers on feature maps, or raises NoIndexMap; the last rule keeps the dims of the file.
"""

from __future__ import annotations

from dataclasses import replace

from cnn2csdf import token_arithmetic, token_moves
from cnn2csdf.network import Layer, Network
from cnn2csdf.rewriting import Draft, Edit, edited, rewritten
from cnn2csdf.rings import with_heads_as_columns
from cnn2csdf.token_layers import TokenDraft
from cnn2csdf.weights import Model


def tokens_as_rows(model: Model) -> Model:
    """Return the model with attention on maps of token rows; the same model if it has no attention.

    Layers keep their names; inputs and outputs of the network keep the dims of the file.
    """
    draft = TokenDraft(with_heads_as_columns(model))
    on_maps = edited(draft, *RULES)
    return with_masks_of_readers(on_maps) if draft.has_attention else model


def with_masks_of_readers(model: Model) -> Model:
    """Return the model with a copy of the layers of an attention mask for each reader of the mask.

    The copies are next to the reader, so only the mask itself, an input of the network after the
    first, is stored from one attention block to the next.

    before: image 1x4x4; mask 1x4x4 -> far 1x4x4; image, far -> first 1x4x4; first, far -> second
            1x4x4
    after:  image 1x4x4; mask 1x4x4 -> far for first 1x4x4; image, far for first -> first 1x4x4;
            mask -> far for second 1x4x4; first, far for second -> second 1x4x4
    """
    network = model.network
    masks = _mask_layers(network)

    def with_copies(draft: Draft, layer: Layer) -> Edit | None:
        if layer.name in masks or masks.isdisjoint(layer.inputs):
            return None
        copies: dict[str, Layer] = {}  # by the name of the original, sources first

        def copied(name: str) -> str:
            if name not in masks:
                return name
            if name not in copies:
                sources = tuple(map(copied, network.layer(name).inputs))
                copy_name = draft.new_name(f"{name} for {layer.name}")
                copies[name] = replace(network.layer(name), name=copy_name, inputs=sources)
            return copies[name].name

        reader = replace(layer, inputs=tuple(map(copied, layer.inputs)))
        return Edit(
            layers={layer.name: (*copies.values(), reader)},
            weights={copy.name: draft.arrays(name) or {} for name, copy in copies.items()},
        )

    return rewritten(model, with_copies)


def _mask_layers(network: Network) -> set[str]:
    """The layers that prepare an attention mask: cheap operators on inputs after the first.

    Cheap operators are those of `copies_masks`, and elementwise functions of a tensor and a constant.
    """
    mask_inputs = {layer.name for layer in network.inputs[1:]}
    mask_layers: set[str] = set()
    for layer in network.layers:
        is_elementwise = layer.operator.elementwise_function is not None
        is_cheap = layer.operator.copies_masks or (is_elementwise and len(layer.inputs) == 1)
        if is_cheap and (mask_layers | mask_inputs).issuperset(layer.inputs):
            mask_layers.add(layer.name)
    return mask_layers


def in_file_dims(draft: TokenDraft, layer: Layer) -> Edit:
    """The last rule: a layer in the dims of the file, with moves that give its operands these dims.

    before: tokens 8x4 -> sums 8x4
    after:  tokens 4x8x1 -> tokens 8x4 8x4 -> sums 8x4
    """
    draft.put_unchanged(layer)
    return draft.edit(layer)


RULES = (*token_moves.RULES, *token_arithmetic.RULES, in_file_dims)

"""The graph around an encoder in an exported model: pixels of any size in front of it, confidences behind it.

    images uint8 (n, h, w, 3) -> centre square, bicubic to the encoder's size -> encoder -> embedding (n, width)
    -> similarity to the anchors, which are images of the project -> scores of classes, and likeness to the nearest one
    -> confidences (n, classes + 1), 'unknown' last

The square and the scaling are those of `fscil.data.images`; a picture that has the encoder's size already passes
through them untouched.
"""

from typing import Any, no_type_check

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, numpy_helper
from onnxscript import onnx_types, script
from onnxscript import opset20 as op

from fscil.teach.learning.head import Head

IR_VERSION = 10  # read by every onnxruntime since 1.18
TYPES: Any = onnx_types  # FLOAT["batch", 3] and the like are made at run time, where mypy cannot follow
# What is not computed but put in, by the names of the parameters below.
SIZE = "fscil_size"
_PARTS = "anchors", "sharp", "classify", "sharper", "match", "temperature", "softness", "level"
HEAD = [f"fscil_{part}" for part in _PARTS]
AFTER = "fscil_after_"


@no_type_check
@script(default_opset=op)
def centre_square(images, fscil_size):
    sides = op.Shape(images, start=1, end=3)
    side = op.ReduceMin(sides)
    first = (sides - side) / 2
    cut = op.Slice(images, first, first + side, op.Constant(value_ints=[1, 2]))
    planes = op.Cast(op.Transpose(cut, perm=[0, 3, 1, 2]), to=TensorProto.FLOAT)
    # As Pillow's bicubic: averaging when it shrinks, weights cut off at the border.
    scaled = op.Resize(
        planes, None, None, fscil_size, axes=[2, 3], mode="cubic", cubic_coeff_a=-0.5, antialias=1, exclude_outside=1
    )
    rounded = op.Clip(op.Round(scaled), 0.0, 255.0)
    return op.Cast(op.Transpose(rounded, perm=[0, 2, 3, 1]), to=TensorProto.UINT8)


@no_type_check
@script(default_opset=op)
def answer(
    embedded,
    fscil_anchors,
    fscil_sharp,
    fscil_classify,
    fscil_sharper,
    fscil_match,
    fscil_temperature,
    fscil_softness,
    fscil_level,
):
    away = op.MatMul(embedded, fscil_anchors) - op.Constant(value_float=1.0)
    scores = op.MatMul(op.Exp(away * fscil_sharp), fscil_classify) / fscil_temperature
    likeness = op.ReduceMax(
        op.MatMul(op.Exp(away * fscil_sharper), fscil_match), op.Constant(value_ints=[1]), keepdims=1
    )
    best = op.ReduceMax(scores, op.Constant(value_ints=[1]), keepdims=1)
    confidences = op.Softmax(op.Concat(scores, best + (fscil_level - likeness) / fscil_softness, axis=1), axis=1)
    embedding = op.Identity(embedded)
    return confidences, embedding


def squared(encoder: onnx.ModelProto, size: int) -> onnx.ModelProto:
    """From pictures of any size to vectors, from a model that takes uint8 squares (n, size, size, 3)."""
    pictures, squares = TYPES.UINT8["batch", "height", "width", 3], TYPES.UINT8["batch", size, size, 3]
    before = _part(centre_square, "fscil_before_", [pictures, TYPES.INT64[2]], [squares])
    encoder.ir_version = IR_VERSION
    model = compose.merge_models(before, encoder, [(before.graph.output[0].name, encoder.graph.input[0].name)])
    del model.graph.input[1:]  # the others are constants
    del model.graph.value_info[:]  # shapes of everything between, which onnxruntime works out itself
    model.graph.initializer.append(numpy_helper.from_array(np.array([size, size]), SIZE))
    return model


def embedding_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """An exported model without what it answers."""
    (last,) = (node for node in model.graph.node if "embedding" in node.output)
    nodes = [node for node in model.graph.node if not any(name.startswith(AFTER) for name in (node.name, *node.output))]
    nodes = [node for node in nodes if "confidences" not in node.output and node is not last]
    used = {name for node in nodes for name in node.input}
    constants = [tensor for tensor in model.graph.initializer if tensor.name in used]
    for field, kept in ((model.graph.node, nodes), (model.graph.initializer, constants)):
        del field[:]
        field.extend(kept)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None))
    del model.metadata_props[:]
    return model


def answered(model: onnx.ModelProto, width: int) -> onnx.ModelProto:
    """A whole model, but for its classes."""
    vectors, confidences = TYPES.FLOAT["batch", width], TYPES.FLOAT["batch", "classes_and_unknown"]
    anchors, known = TYPES.FLOAT[width, "anchors"], TYPES.FLOAT["anchors", "classes"]
    inputs = [vectors, anchors, TYPES.FLOAT, known, TYPES.FLOAT, known, *[TYPES.FLOAT] * 3]
    after = _part(answer, AFTER, inputs, [confidences, vectors])
    model = compose.merge_models(model, after, [(model.graph.output[0].name, after.graph.input[0].name)])
    del model.graph.input[1:]  # the others are constants
    model.graph.name = model.producer_name = "fscil"
    return model


def set_knowledge(model: onnx.ModelProto, head: Head, metadata: dict[str, str]) -> None:
    """Put the classes in."""
    calibration = head.calibration
    values: list[Any] = [
        head.anchors.T,
        head.classifier.sharpness,
        head.class_coefficients,
        head.matcher.sharpness,
        head.matcher.coefficients,
        calibration.temperature,
        calibration.softness,
        calibration.level,
    ]
    for name, value in zip(HEAD, values, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, dtype=np.float32), name))
    helper.set_model_props(model, metadata)


def _part(function: Any, prefix: str, inputs: list[Any], outputs: list[Any]) -> onnx.ModelProto:
    """With names of its own inside, so that it can stand beside other graphs."""
    model = function.to_model_proto(input_types=inputs, output_types=outputs, ir_version=IR_VERSION)
    return compose.add_prefix(model, prefix, rename_inputs=False, rename_outputs=False)

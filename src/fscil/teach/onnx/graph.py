"""The graph around an encoder in an exported model: pixels of any size in front of it, confidences behind it.

    images uint8 (n, h, w, 3) -> centre square, bicubic to the encoder's size -> encoder -> embedding (n, width)
    -> similarity to each class -> confidences (n, classes + 1), 'unknown' last

The square and the scaling are those of `fscil.data.images`; a picture that has the encoder's size already passes
through them untouched.
"""

from typing import Any, no_type_check

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, numpy_helper
from onnxscript import onnx_types, script
from onnxscript import opset20 as op

IR_VERSION = 10  # read by every onnxruntime since 1.18
TYPES: Any = onnx_types  # FLOAT["batch", 3] and the like are made at run time, where mypy cannot follow
# What is not computed but put in, by the names of the parameters below.
SIZE, PROTOTYPES, TEMPERATURE, LEVEL = "fscil_size", "fscil_prototypes", "fscil_temperature", "fscil_level"


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
def answer(embedded, fscil_prototypes, fscil_temperature, fscil_level):
    known = (op.MatMul(embedded, fscil_prototypes) - fscil_level) / fscil_temperature
    # 'unknown' is one more class, with a logit of zero.
    confidences = op.Softmax(op.Pad(known, op.Constant(value_ints=[0, 0, 0, 1])), axis=1)
    embedding = op.Identity(embedded)
    return confidences, embedding


def wrap(encoder: onnx.ModelProto, size: int, width: int) -> onnx.ModelProto:
    """A whole model, but for its classes, from one that takes uint8 squares (n, size, size, 3) and gives vectors."""
    pictures, squares = TYPES.UINT8["batch", "height", "width", 3], TYPES.UINT8["batch", size, size, 3]
    vectors, confidences = TYPES.FLOAT["batch", width], TYPES.FLOAT["batch", "classes_and_unknown"]
    before = _part(centre_square, "fscil_before_", [pictures, TYPES.INT64[2]], [squares])
    inputs = [vectors, TYPES.FLOAT[width, "classes"], TYPES.FLOAT, TYPES.FLOAT]
    after = _part(answer, "fscil_after_", inputs, [confidences, vectors])
    encoder.ir_version = IR_VERSION
    ends = encoder.graph.input[0].name, encoder.graph.output[0].name
    model = compose.merge_models(before, encoder, [(before.graph.output[0].name, ends[0])])
    model = compose.merge_models(model, after, [(ends[1], after.graph.input[0].name)])
    del model.graph.input[1:]  # the others are constants
    del model.graph.value_info[:]  # shapes of everything between, which onnxruntime works out itself
    model.graph.initializer.append(numpy_helper.from_array(np.array([size, size]), SIZE))
    model.graph.name = model.producer_name = "fscil"
    return model


def set_knowledge(
    model: onnx.ModelProto, weights: np.ndarray, temperature: float, level: float, metadata: dict[str, str]
) -> None:
    """Put the classes in, in place of those that may be there."""
    values = {PROTOTYPES: weights.T, TEMPERATURE: temperature, LEVEL: level}
    constants = [numpy_helper.from_array(np.asarray(value, dtype=np.float32), name) for name, value in values.items()]
    rest = [tensor for tensor in model.graph.initializer if tensor.name not in values]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*rest, *constants])
    helper.set_model_props(model, metadata)


def _part(function: Any, prefix: str, inputs: list[Any], outputs: list[Any]) -> onnx.ModelProto:
    """With names of its own inside, so that it can stand beside other graphs."""
    model = function.to_model_proto(input_types=inputs, output_types=outputs, ir_version=IR_VERSION)
    return compose.add_prefix(model, prefix, rename_inputs=False, rename_outputs=False)

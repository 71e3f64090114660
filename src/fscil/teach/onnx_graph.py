"""The graph around an encoder in an exported model: pixels of any size in front of it, confidences behind it.

    images uint8 (n, h, w, 3) -> centre square, bicubic to the encoder's size -> encoder -> embedding (n, width)
    -> similarity to each class -> confidences (n, classes + 1), 'unknown' last

The square and the scaling are those of `fscil.teach.pictures`; a picture that has the encoder's size already passes
through them untouched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUT, CONFIDENCES, EMBEDDING = "images", "confidences", "embedding"
IR_VERSION = 10  # read by every onnxruntime since 1.18
PROTOTYPES, TEMPERATURE, LEVEL = "fscil_prototypes", "fscil_temperature", "fscil_level"


def wrap(encoder: onnx.ModelProto, size: int, width: int) -> onnx.ModelProto:
    """A whole model from one that takes uint8 squares (n, size, size, 3) and gives vectors."""
    graph = encoder.graph
    before, constants = _square(graph.input[0].name, size)
    after = _answer(graph.output[0].name)
    inputs = [helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["batch", "height", "width", 3])]
    outputs = [
        helper.make_tensor_value_info(CONFIDENCES, TensorProto.FLOAT, ["batch", "classes_and_unknown"]),
        helper.make_tensor_value_info(EMBEDDING, TensorProto.FLOAT, ["batch", width]),
    ]
    whole = helper.make_graph(
        [*before, *graph.node, *after], "fscil", inputs, outputs, [*graph.initializer, *constants]
    )
    model = helper.make_model(whole, opset_imports=list(encoder.opset_import), ir_version=IR_VERSION)
    model.functions.extend(encoder.functions)
    model.producer_name = "fscil"
    return model


def set_knowledge(
    model: onnx.ModelProto, weights: np.ndarray, temperature: float, level: float, metadata: dict[str, str]
) -> None:
    """Put the classes in, in place of those that may be there."""
    values = {
        PROTOTYPES: weights.T.astype(np.float32),
        TEMPERATURE: np.float32(temperature),
        LEVEL: np.float32(level),
    }
    rest = [tensor for tensor in model.graph.initializer if tensor.name not in values]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*rest, *[numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()]])
    helper.set_model_props(model, metadata)


def _square(target: str, size: int) -> tuple[list[Any], list[Any]]:
    nodes: list[Any] = []

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> None:
        named = [name if name == INPUT or not name else f"fscil_{name}" for name in inputs]
        out = output if output == target else f"fscil_{output}"
        nodes.append(helper.make_node(kind, named, [out], name=f"fscil_{output}_node", **attributes))

    node("Shape", [INPUT], "batch", start=0, end=1)
    node("Shape", [INPUT], "height", start=1, end=2)
    node("Shape", [INPUT], "width", start=2, end=3)
    node("Min", ["height", "width"], "side")
    for axis in ("height", "width"):
        node("Sub", [axis, "side"], f"{axis}_spare")
        node("Div", [f"{axis}_spare", "two"], f"{axis}_first")
        node("Add", [f"{axis}_first", "side"], f"{axis}_last")
    node("Concat", ["height_first", "width_first"], "first", axis=0)
    node("Concat", ["height_last", "width_last"], "last", axis=0)
    node("Slice", [INPUT, "first", "last", "axes"], "cut")
    node("Transpose", ["cut"], "planes", perm=[0, 3, 1, 2])
    node("Cast", ["planes"], "numbers", to=TensorProto.FLOAT)
    node("Concat", ["batch", "three", "size"], "target", axis=0)
    # As Pillow's bicubic: averaging when it shrinks, weights cut off at the border.
    resize = {"mode": "cubic", "cubic_coeff_a": -0.5, "antialias": 1, "exclude_outside": 1}
    node("Resize", ["numbers", "", "", "target"], "scaled", coordinate_transformation_mode="half_pixel", **resize)
    node("Round", ["scaled"], "rounded")
    node("Clip", ["rounded", "zero", "most"], "clipped")
    node("Transpose", ["clipped"], "pixels", perm=[0, 2, 3, 1])
    node("Cast", ["pixels"], target, to=TensorProto.UINT8)
    constants = {
        "two": np.array([2]),
        "axes": np.array([1, 2]),
        "three": np.array([3]),
        "size": np.array([size, size]),
        "zero": np.float32(0),
        "most": np.float32(255),
        "one_more": np.array([0, 0, 0, 1]),  # pads the logits with a zero, for 'unknown'
    }
    return nodes, [numpy_helper.from_array(np.asarray(value), f"fscil_{name}") for name, value in constants.items()]


def _answer(vectors: str) -> list[Any]:
    """softmax of ((similarity - level) / temperature, 0)."""
    return [
        helper.make_node("Identity", [vectors], [EMBEDDING], name="fscil_embedding"),
        helper.make_node("MatMul", [vectors, PROTOTYPES], ["fscil_scores"], name="fscil_similarity"),
        helper.make_node("Sub", ["fscil_scores", LEVEL], ["fscil_above"], name="fscil_above_level"),
        helper.make_node("Div", ["fscil_above", TEMPERATURE], ["fscil_known"], name="fscil_tempered"),
        helper.make_node("Pad", ["fscil_known", "fscil_one_more"], ["fscil_logits"], name="fscil_unknown"),
        helper.make_node("Softmax", ["fscil_logits"], [CONFIDENCES], name="fscil_softmax", axis=1),
    ]

"""Use a model of `fscil export` with nothing but numpy, Pillow and onnxruntime: onnx_predict.py MODEL.onnx IMAGE..."""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

model = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
classes = json.loads(model.get_modelmeta().custom_metadata_map["classes"])  # the last one is "unknown"
for path in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGBA")
    image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    confidences = model.run(["confidences"], {"images": np.asarray(image)[None]})[0][0]
    print(f"{path}: {classes[confidences.argmax()]} ({confidences.max():.0%})")

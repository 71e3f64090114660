"""A project as one ONNX file, and a project from such a file again."""

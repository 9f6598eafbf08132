"""The examples of the page run as they stand, one after the other."""

import re
from pathlib import Path

import torch

from tests.engine.samples import tiny_llama
from tests.engine.tokenizer import END, VOCABULARY, byte_tokenizer

PAGE = (Path(__file__).parents[2] / "docs" / "engine.md").read_text()


def test_the_example(tmp_path, capsys):
    tiny_llama(end_token=END, vocabulary=VOCABULARY).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    example, eight_bits = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {"folder": tmp_path}
    exec(compile(example, "engine.md", "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert {line[0] for line in lines if line} >= {"a", "b"}
    assert sum(line.split()[1:] in (["length", "0"], ["stop", "0"]) for line in lines) == 2
    names["engine"].check_integrity()
    exec(compile(eight_bits, "engine.md", "exec"), names)
    assert names["config"].dtype == torch.float8_e4m3fn and names["engine"] is not None
    assert (names["scales"].keys > 0).all()

"""`kgen generate` on a tiny model in a folder: what goes where, JSON, and faults in its own words."""

import json

import pytest

pytest.importorskip("transformers")

from kgen.cli import main
from tests.engine.samples import tiny_llama
from tests.engine.tokenizer import END, VOCABULARY, byte_tokenizer

QUESTION = "What is it, and why is it there?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    tiny_llama(end_token=END, vocabulary=VOCABULARY).save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def generate(folder, capsys):
    """Run the command; returns exit code, stdout and stderr."""

    def run(*argv):
        code = main(["generate", "--model", str(folder), "--max-new-tokens", "12", "--blocks", "200", *argv])
        return code, *capsys.readouterr()

    return run


def test_one_prompt_streams_its_text(generate):
    code, out, err = generate(QUESTION)
    assert code == 0 and out.count("\n") >= 1 and len(out) > 3
    assert "loading the model" in err
    assert f"prompts    {len(QUESTION) + 19} tokens: 0 reused (0.0%), {len(QUESTION) + 19} computed" in err
    assert "extend_attention_cpu" in err and "paged_attention_cpu" in err
    assert "blocks     200: 0 in use" in err


def test_text_and_json_are_the_same_answer(generate):
    _, out, _ = generate(QUESTION)
    code, document, _ = generate(QUESTION, "--json")
    found = json.loads(document)
    (turn,) = found["turns"]
    (answer,) = turn["completions"]
    assert code == 0 and out == answer["text"] + "\n"
    assert len(answer["tokens"]) == 12 and answer["finish"] == "length" and answer["score"] is None
    assert found["stats"]["prefill_tokens"] == turn["prompt_tokens"]
    assert all(calls > 0 for calls in found["kernels"].values())


def test_samples_and_beams_are_told_apart(generate):
    _, out, _ = generate(QUESTION, "--raw", "--n", "3", "--temperature", "1", "--seed", "4")
    assert out.startswith(f"[1.1] {QUESTION}\n(1) ") and "\n(3) " in out
    again = generate(QUESTION, "--raw", "--n", "3", "--temperature", "1", "--seed", "4")[1]
    other = generate(QUESTION, "--raw", "--n", "3", "--temperature", "1", "--seed", "5")[1]
    assert again == out != other
    found = json.loads(generate(QUESTION, "--beam", "2", "--json")[1])
    scores = [each["score"] for each in found["turns"][0]["completions"]]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)


def test_sessions_of_a_chat_file_reuse_each_other(generate, tmp_path):
    chats = tmp_path / "chats.json"
    turns = ["Where?", "And then?", "Is that so?"]
    chats.write_text(json.dumps([turns, {"turns": turns[:2], "system": "x" * 40}]))
    system = ["--system", "You are a guide who never says more than is asked for."]
    code, document, err = generate("--chat", str(chats), *system, "--chunk", "32", "--json")
    found = json.loads(document)
    assert code == 0 and "kgen: 5 of 5 answers" in err
    by_name = {(turn["session"], turn["turn"]): turn for turn in found["turns"]}
    assert sorted(by_name) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    # The other session has a system message of its own: nothing in common but its mark and "system".
    assert by_name[0, 0]["cached_tokens"] == by_name[1, 0]["cached_tokens"] == 0
    for session, turn in ((0, 1), (0, 2), (1, 1)):
        before, now = by_name[session, turn - 1], by_name[session, turn]
        written = before["prompt_tokens"] + len(before["completions"][0]["tokens"]) - 1
        assert now["cached_tokens"] == written // 16 * 16
    assert found["stats"]["reused_tokens"] == sum(turn["cached_tokens"] for turn in found["turns"]) > 0
    plain = json.loads(generate("--chat", str(chats), *system, "--no-prefix-cache", "--json")[1])
    answers = [
        {(t["session"], t["turn"]): t["completions"] for t in each["turns"]} for each in (found, plain)
    ]
    assert answers[0] == answers[1]
    assert plain["stats"]["reused_tokens"] == 0 == plain["stats"]["cached_blocks"]


def test_a_file_of_prompts_and_pages_of_another_kind(generate, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\n\ntwo\n")
    code, out, err = generate("three", "--file", str(prompts), "--kv-dtype", "bf16", "--block-size", "32")
    assert code == 0 and "[1.1] three" in out and "[2.1] one" in out and "[3.1] two" in out
    assert "_bf16_" in err and "_b32_" in err and "_f32_" not in err


def test_memory_is_counted_in_bytes_or_blocks(folder, capsys):
    # A page of 16 tokens: keys and values of 2 layers and 2 heads of 32 floats each.
    assert main(["generate", "hi", "--model", str(folder), "--max-new-tokens", "2", "--memory", "64K"]) == 0
    page = 16 * 2 * 2 * 2 * 32 * 4
    assert f"blocks     {(64 << 10) // page}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "there is nothing to answer"),
        (["--file", "none.txt"], "cannot read none.txt"),
        (["--chat", "none.json"], "cannot read none.json"),
        (["--chat", "none.json", "--raw"], "--chat and --raw do not go together"),
        (["x", "--n", "4"], "n is 4, but at temperature 0"),
        (["x", "--top-p", "2"], "top_p is 2.0"),
        (["x", "--model", "nowhere"], "cannot load a model from nowhere: there is no such file"),
        (["x", "--blocks", "2"], "raise --memory or --blocks, or lower --max-new-tokens, --n or --beam"),
        (["x", "--max-new-tokens", "600"], "shorten the prompt or lower --max-new-tokens"),
        (["x", "--memory", "1K"], "one block of 16 tokens takes"),
    ],
)
def test_faults(folder, capsys, argv, message):
    model = [] if "--model" in argv else ["--model", str(folder)]
    assert main(["generate", *model, *argv]) == 1
    out, err = capsys.readouterr()
    assert "error[K" in err and message in err and out == ""


def test_a_folder_without_a_model_is_said(tmp_path, capsys):
    assert main(["generate", "x", "--model", str(tmp_path)]) == 1
    assert "name a folder that transformers can load" in capsys.readouterr().err


def test_no_model_at_all(monkeypatch, capsys):
    from kgen.integrations import load

    monkeypatch.setattr(load, "model_file", lambda: None)
    assert main(["generate", "x"]) == 1
    assert "there is no model" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--memory", "lots"], ["--memory", "1M", "--blocks", "3"], ["--n", "0"]])
def test_wrong_usage(argv, capsys):
    with pytest.raises(SystemExit) as end:
        main(["generate", "x", *argv])
    assert end.value.code == 2
    assert "usage: kgen generate" in capsys.readouterr().err


def test_a_calibration_text_is_for_8_bit_kv(generate, tmp_path):
    text = tmp_path / "text"
    text.write_text("It is raining.")
    code, out, err = generate(QUESTION, "--calibration", str(text))
    assert code == 1 and out == "" and "--calibration is of no use with --kv-dtype f32" in err
    code, _, err = generate(QUESTION, "--kv-dtype", "fp8_e4m3", "--calibration", str(tmp_path / "none"))
    assert code == 1 and "--calibration wants a file of UTF-8 text" in err

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.tools.tool_output import (
    MAX_OUTPUT_BYTES,
    MAX_OUTPUT_JSON_BYTES,
    Output,
    bound_output,
    clean_json,
    clean_text,
    with_remark,
)


def test_nul_and_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert clean_text("a\0b\ud800c\ud83d\ude00") == "a\ufffdb\ufffdc😀"


def test_json_is_clean_in_its_keys_and_at_every_depth() -> None:
    assert clean_json({"k\ud800": [{"a": "\0"}, 1, None]}) == {
        "k\ufffd": [{"a": "\ufffd"}, 1, None]
    }


def test_numbers_beyond_all_that_json_writes_are_null_as_they_are_in_the_log() -> None:
    read = json.loads('{"a": 1e999, "b": [-1e999, 1e300, 3]}')

    assert clean_json(read) == {"a": None, "b": [None, 1e300, 3]}


def test_an_output_that_fits_is_whole() -> None:
    assert bound_output("x" * MAX_OUTPUT_BYTES) == Output(text="x" * MAX_OUTPUT_BYTES)


@given(st.text(st.characters(codec=None), min_size=1, max_size=8), st.integers(1, 400_000))
def test_every_output_fits_into_an_event(part: str, times: int) -> None:
    output = bound_output(part * (times // len(part)))
    shown = with_remark(output, kept_as=".navi/outputs/call_00000000000a.txt")

    assert len(shown.encode()) <= MAX_OUTPUT_BYTES
    assert len(msgspec.json.encode(shown)) <= MAX_OUTPUT_JSON_BYTES
    assert output.whole is None or output.whole.startswith(output.text)

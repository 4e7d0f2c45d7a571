from pathlib import Path

from navi.adapters.tools.kept_outputs import KeptOutputs
from navi.domain.tools.tool_output import MAX_OUTPUT_BYTES
from navi.domain.vocabulary.ids import CallId
from navi.ports.tools import BoundOutput

CALL = CallId("call_00000000000a")


async def test_a_short_output_stays_as_it_is(tmp_path: Path) -> None:
    bound = await KeptOutputs().bound("short", call_id=CALL, workspace=tmp_path)

    assert bound == BoundOutput(text="short", truncated=False)
    assert list(tmp_path.iterdir()) == []


async def test_a_long_output_is_cut_and_kept_whole(tmp_path: Path) -> None:
    output = "ä" * MAX_OUTPUT_BYTES

    bound = await KeptOutputs().bound(output, call_id=CALL, workspace=tmp_path)

    assert bound.truncated
    assert len(bound.text.encode()) <= MAX_OUTPUT_BYTES
    assert bound.text.endswith(f"the whole output is in the file .navi/outputs/{CALL}.txt]")
    assert (tmp_path / ".navi" / "outputs" / f"{CALL}.txt").read_text() == output


async def test_an_output_that_cannot_be_kept_is_still_answered(tmp_path: Path) -> None:
    (tmp_path / ".navi").symlink_to("/nowhere")

    bound = await KeptOutputs().bound("x" * 300_000, call_id=CALL, workspace=tmp_path)

    assert bound.truncated
    assert bound.text.endswith("; the rest could not be kept]")

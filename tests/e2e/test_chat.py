"""``navi chat`` against a running navi, on pipes and on a terminal."""

import signal

import pytest

from navi.cli.shared.command import INTERRUPTED
from tests.support.navi_process import NaviProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODY = "01970000-0000-7000-8000-000000000000"  # no session's id


async def test_only_the_answer_is_on_standard_output(navi: NaviProcess) -> None:
    ended = await navi.command("chat", "!think hm\n!say **Hello** there.")

    assert (ended.status, ended.stdout, ended.stderr) == (0, "**Hello** there.\n", "")


async def test_standard_input_is_the_message(navi: NaviProcess) -> None:
    ended = await navi.command("chat", stdin="!say from a pipe\n")

    assert (ended.status, ended.stdout) == (0, "from a pipe\n")


async def test_text_that_is_not_utf_8_is_replaced_where_it_is_not(navi: NaviProcess) -> None:
    piped = await navi.command("chat", stdin=b"!say caf\xe9\r\n")
    async with navi.started("chat", "!say caf\udce9") as process:  # that byte again (PEP 383)
        stdout, stderr = await process.communicate()

    assert (piped.status, piped.stdout, piped.stderr) == (0, "caf\ufffd\n", "")
    assert (process.returncode, stdout.decode(), stderr) == (0, "caf\ufffd\n", b"")


async def test_a_message_that_is_too_long_is_refused_before_a_session_is_made(
    navi: NaviProcess,
) -> None:
    before = (await navi.get("/sessions"))["sessions"]

    ended = await navi.command("chat", stdin="я" * 600_000, within=30)

    words = "navi: content: has 1200000 bytes, 262144 are allowed\n"
    assert (ended.status, ended.stdout, ended.stderr) == (1, "", words)
    assert [s["id"] for s in (await navi.get("/sessions"))["sessions"]] == [s["id"] for s in before]


async def test_a_chat_goes_on_in_its_session(navi: NaviProcess) -> None:
    first = (await navi.command("chat", "!say one", "--json")).json

    second = await navi.command("chat", "!say two", "--session", first["session_id"], "--json")

    turn_id, seq = second.json.pop("turn_id"), second.json.pop("seq")
    assert (second.status, second.json) == (
        0,
        {"session_id": first["session_id"], "turn_id": turn_id, "outcome": "completed"}
        | {"content": "two", "seq": seq},
    )
    assert seq > first["seq"]


async def test_a_turn_that_fails_is_told_on_standard_error(navi: NaviProcess) -> None:
    ended = await navi.command("chat", "!fail http 400")

    assert (ended.status, ended.stdout) == (1, "")
    assert ended.stderr.startswith("navi: ")


async def test_an_empty_message_is_wrong_usage(navi: NaviProcess) -> None:
    ended = await navi.command("chat", stdin="  \n")

    assert (ended.status, ended.stdout, ended.stderr) == (2, "", "navi: there is no message\n")


async def test_a_session_that_does_not_exist_is_not_made(navi: NaviProcess) -> None:
    ended = await navi.command("chat", "hello", "--session", NOBODY)

    assert (ended.status, ended.stdout, ended.stderr) == (1, "", f"navi: no session {NOBODY}\n")


async def test_a_profile_that_does_not_exist_is_refused(navi: NaviProcess) -> None:
    ended = await navi.command("chat", "hello", "--profile", "nobody")

    assert (ended.status, ended.stderr) == (
        1,
        "navi: profile_id: there is no profile 'nobody'\n",
    )


async def test_a_person_chats_stops_a_turn_and_leaves(navi: NaviProcess) -> None:
    async with navi.on_terminal("chat") as terminal:
        await terminal.sees("assistant >")
        terminal.type("!say **Hello** there.\r")
        await terminal.sees("Hello there.")
        await terminal.sees("assistant >")
        terminal.type("!repeat 1000 word\r")
        await terminal.sees("call 1/20 · answering")
        terminal.type("\x03")
        await terminal.sees("✗ stopped")
        await terminal.sees("assistant >")
        terminal.type("/bogus\r")
        await terminal.sees("there is no command /bogus; /help lists them")
        await terminal.sees("assistant >")
        terminal.type(f"/open {NOBODY}\r")
        await terminal.sees(f"no session {NOBODY}")
        await terminal.sees("assistant >")
        terminal.type("\x04")

        assert await terminal.ended() == 0


async def test_lines_completion_looks_back_and_what_is_typed_ahead(navi: NaviProcess) -> None:
    async with navi.on_terminal("chat") as terminal:
        await terminal.sees("assistant >")
        terminal.type(
            '!think hm\x1b\r!tool todo {"action": "list"}\x1b\r!then\x1b\r!sleep 1\x1b\r!say Done.\r'
        )
        await terminal.sees("call 2/20")
        # While it works: it stands at the next prompt, and not in what is being drawn.
        terminal.type("/think\r")
        await terminal.sees("Done.")
        await terminal.sees("assistant >")
        await terminal.sees("hm")
        await terminal.sees("assistant >")
        terminal.type("/ou\t")
        await terminal.sees("/out")
        terminal.type("\r")
        await terminal.sees("todo")
        await terminal.sees("assistant >")
        terminal.type("/memories\r")
        await terminal.sees("nothing is remembered")
        await terminal.sees("assistant >")
        terminal.type("\x04")

        assert await terminal.ended() == 0
    # The prompt itself may be drawn twice, before and after the terminal has said where the cursor is.
    at_work = terminal.screen.partition("call 2/20")[2].partition("Done.")[0]
    assert "/think" not in at_work


async def test_what_another_client_of_the_session_said_is_shown(navi: NaviProcess) -> None:
    session = (await navi.command("chat", "!say begun", "--json")).json["session_id"]

    async with navi.on_terminal("chat", "--session", session) as terminal:
        await terminal.sees("assistant >")
        await navi.command("chat", "!say to the other one", "--session", session)
        terminal.type("!say to me\r")

        await terminal.sees("> !say to the other one")
        await terminal.sees("to the other one")
        await terminal.sees("> !say to me")
        await terminal.sees("to me")
        await terminal.sees("assistant >")
        terminal.type("\x04")
        assert await terminal.ended() == 0


async def test_a_second_ctrl_c_leaves_and_says_how_to_come_back(navi: NaviProcess) -> None:
    session = (await navi.command("chat", "!say begun", "--json")).json["session_id"]

    async with navi.on_terminal("chat", "--session", session) as terminal:
        await terminal.sees("assistant >")
        terminal.type("!repeat 100000 word\r")
        await terminal.sees("call 1/20 · answering")
        navi.signal(signal.SIGSTOP)  # or it would stop before the second one
        try:
            terminal.type("\x03")
            await terminal.sees("stopping; Ctrl-C again leaves at once")
            terminal.type("\x03")
            await terminal.sees(f"navi chat --session {session}")
            status = await terminal.ended()
        finally:
            navi.signal(signal.SIGCONT)

    assert status == INTERRUPTED


async def test_a_session_that_was_deleted_elsewhere_does_not_end_the_chat(
    navi: NaviProcess,
) -> None:
    session = (await navi.command("chat", "!say begun", "--json")).json["session_id"]

    async with navi.on_terminal("chat", "--session", session) as terminal:
        await terminal.sees("assistant >")
        async with navi.client() as client:
            await client.delete(f"/sessions/{session}")
        for line in ("/think", "!say anything"):
            terminal.type(f"{line}\r")
            await terminal.sees(f"no session {session}")
            await terminal.sees("assistant >")
        terminal.type("/new\r")
        await terminal.sees("assistant >")
        terminal.type("!say **Hello** again.\r")
        await terminal.sees("Hello again.")
        await terminal.sees("assistant >")
        terminal.type("\x04")

        assert await terminal.ended() == 0


async def test_a_message_that_was_taken_back_while_navi_was_away_does_not_end_the_chat(
    navi: NaviProcess,
) -> None:
    async with navi.on_terminal("chat") as terminal:
        await terminal.sees("assistant >")
        await navi.stop()
        try:
            terminal.type("!say never\r")
            await terminal.sees("connecting again")
            terminal.type("\x03")
            await terminal.sees("the message was not sent: there was no connection")
            await terminal.sees("assistant >")
        finally:
            await navi.start()
        terminal.type("!say **Here** again.\r")
        await terminal.sees("Here again.")
        await terminal.sees("assistant >")
        terminal.type("\x04")

        assert await terminal.ended() == 0

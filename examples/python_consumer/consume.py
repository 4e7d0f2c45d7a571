"""Follow navi's events on NATS: one line an event, each processed once, in order, over any restart.

The place in the stream is kept by a durable consumer on the NATS server; what was made of the events,
here the conversation, in an SQLite file. NATS delivers at least once: what comes again is recognised
by ``(session_id, seq)``. Needs ``nats-py``, and nothing of navi.
"""

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
from typing import Any

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

ACK_SECONDS = 5  # what is not acknowledged within this time is delivered again
RETRY_SECONDS = 1

# Deltas take numbers too, and are on `navi.deltas`. Text in the making comes while a call of these is open ...
MAKING_TEXT = {"turn", "tool"}
# ... and `model_waiting` before one of these: who waits may also stop, or say more.
AFTER_WAITING = (
    *("model_called", "turn_started", "turn_resumed"),
    *("user_message_received", "stop_requested", "turn_stopped"),
)

Event = dict[str, Any]  # the envelope

TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS session (session_id PRIMARY KEY, seq, open_calls);
CREATE TABLE IF NOT EXISTS message (session_id, seq, role, content);
"""


class Conversations:
    """What the events come to: for each session its last seq, open calls and messages."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path)
        self.database.executescript(TABLES)

    def take(self, event: Event) -> str:
        """Process one event; gives the line to print, empty for one that was processed before."""
        session_id, seq, data = event["session_id"], event["seq"], event["data"]
        find = "SELECT seq, open_calls FROM session WHERE session_id = ?"
        row = self.database.execute(find, [session_id]).fetchone()
        if row is not None and seq <= row[0]:
            say(f"again {session_id} {seq}: processed before")
            return ""
        calls: dict[str, str] = json.loads(row[1]) if row else {}  # purpose, or "tool"
        if row is None and event["type"] != "session_created":
            calls["?"] = "turn"  # which calls are open is not known, so no hole is judged
            say(f"late  {session_id} begins at {seq}: NATS keeps nothing from before")
        elif row is None or seq == row[0] + 1:
            pass
        elif MAKING_TEXT.isdisjoint(calls.values()) and event["type"] not in AFTER_WAITING:
            say(f"gap   {session_id} {row[0] + 1} to {seq - 1} are not there (erased, or too old)")
        if event["type"] == "model_called":
            calls[data["call_id"]] = data["purpose"]
        if event["type"] == "tool_started":
            calls[data["call_id"]] = "tool"
        purpose = calls.get(data.get("call_id", ""))
        if event["type"] in ("model_replied", "model_call_failed", "tool_finished"):
            calls.pop(data["call_id"], None)
        message = None if event["subagent_id"] else message_of(event, purpose)
        with self.database:  # all that one event changes, or nothing
            insert = "INSERT OR REPLACE INTO session VALUES (?, ?, ?)"
            self.database.execute(insert, [session_id, seq, json.dumps(calls)])
            if message:
                insert = "INSERT INTO message VALUES (?, ?, ?, ?)"
                self.database.execute(insert, [session_id, seq, *message])
            if event["type"] == "content_erased":  # its own, or of one it was forked from
                self.erase(data["session_id"], data.get("seqs"))
        return "\t".join([session_id, str(seq), event["type"], *map(json.dumps, message or ())])

    def erase(self, session_id: str, seqs: list[int] | None) -> None:
        """Drop the words of some events of a session, or of all."""
        for seq in [None] if seqs is None else seqs:
            erase = "DELETE FROM message WHERE session_id = ? AND seq = coalesce(?, seq)"
            self.database.execute(erase, [session_id, seq])


def message_of(event: Event, purpose: str | None) -> tuple[str, str] | None:
    """Role and text of the message that an event is; None for all others, unknown types too."""
    data = event["data"]
    match event["type"]:
        case "user_message_received":
            return "user", data["content"]
        case "model_replied" if purpose == "turn":
            return "assistant", data["content"]
        case "tool_finished":
            return "tool", data["output"]
        case _:
            return None


async def follow(
    client: Client, stream: str, conversations: Conversations, options: argparse.Namespace
) -> None:
    """Process what comes on a stream, for ever; where it was made anew, begin it again."""
    jetstream = client.jetstream()
    config = ConsumerConfig(
        durable_name=options.durable,
        filter_subject=subject_of(stream, options),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ACK_SECONDS,
        max_ack_pending=1,  # else what is delivered again comes behind what follows it
    )
    while True:
        try:
            if not options.bind:
                await jetstream.add_consumer(stream, config)  # made, or found as it is
            subscription = await jetstream.pull_subscribe_bind(options.durable, stream)
            while True:
                try:
                    [message] = await subscription.fetch(1, timeout=5)
                except TimeoutError:
                    continue  # nothing new
                if line := conversations.take(json.loads(message.data)):
                    print(line, flush=True)
                await message.ack()  # only now: killed before, it comes again
        except (nats.errors.Error, nats.js.errors.Error) as error:
            say(f"wait  {stream}: {error}")
            await asyncio.sleep(RETRY_SECONDS)


def subject_of(stream: str, options: argparse.Namespace) -> str:
    """All facts of a stream, or those of one owner."""
    if options.owner is None:
        return "navi.events.>"
    partition = f"{stream.removeprefix('NAVI_')}." if options.partitions > 1 else ""
    return f"navi.events.{partition}{options.owner}.>"


async def main(options: argparse.Namespace) -> None:
    """Connect, and follow the stream of every partition of the log."""
    conversations = Conversations(options.state)
    client = await nats.connect(options.url, max_reconnect_attempts=-1, error_cb=say_error)
    streams = [f"NAVI_{number}" for number in range(options.partitions)]
    await asyncio.gather(*(follow(client, name, conversations, options) for name in streams))


def read_options() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description="Follow navi's events on NATS.")
    parser.add_argument("--url", help="of NATS; else `navi status --json` is asked")
    parser.add_argument(
        "--owner", help="only the sessions of this owner (`local` without accounts)"
    )
    parser.add_argument("--durable", default="python-example", help="name of the durable consumer")
    parser.add_argument(
        "--state", default="conversations.sqlite", help="file of what was processed"
    )
    parser.add_argument("--partitions", type=int, default=1, help="as in NAVI_LOG_PARTITIONS")
    parser.add_argument(
        "--bind", action="store_true", help="the durable is there, and not ours to make"
    )
    options = parser.parse_args()
    if options.url is None:
        status = json.loads(subprocess.check_output(["navi", "status", "--json"]))  # noqa: S607
        options.url = status["nats_url"]
    return options


async def say_error(error: Exception) -> None:
    """NATS cannot be reached, or refuses: the client tries again by itself."""
    say(f"wait  NATS: {error}")


def say(text: str) -> None:
    """What is not an event goes to standard error."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(read_options()))
    except KeyboardInterrupt:
        sys.exit(130)

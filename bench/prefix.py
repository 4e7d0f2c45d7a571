"""``python -m bench.prefix``: what a real llama.cpp has to read twice over a session of navi.

A small model uses no tools and remembers nothing, so what it says is a script. What is read is not: each
request goes to llama.cpp as it came, which counts what it found in its cache (``cache_n``) and what it had
to read (``prompt_n``). Read twice is what it read beyond the lines that no request had before: the
question for facts, which is asked again after each turn, counts as well as what a compression moves.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from tests.support.llama_process import LlamaProcess, running_llama, small_model_file
from tests.support.model_answer import Answer
from tests.support.model_server import WIRES, ModelServer, Received, purpose_of
from tests.support.model_wire import Calls, Done, Part, Say
from tests.support.navi_process import NaviProcess, running_navi

# As the templates of models that can call tools do it; SmolLM2's own drops them.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}

# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}{% if message.role != 'system' %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}
<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TOPICS = ("tea", "Oslo", "chess", "sailing", "Welsh", "ferrets", "bread")
SECONDS = 600.0  # for a request, and for a turn


class Read(Struct, frozen=True, kw_only=True):
    """What llama.cpp read of one request, in tokens; ``twice`` is part of ``read``."""

    purpose: str
    prompt: int
    read: int
    twice: int


class Session(Struct, frozen=True, kw_only=True):
    """What became of a session: every request, and what the log says happened in it."""

    reads: tuple[Read, ...]
    types: tuple[str, ...]
    name: str | None

    @property
    def twice(self) -> float:
        """The share of all prompt tokens that were read twice."""
        return sum(read.twice for read in self.reads) / sum(read.prompt for read in self.reads)


class ScriptedLlama(ModelServer):
    """Answers by a script, with the counts of the llama.cpp that has read the request."""

    def __init__(self, llama: LlamaProcess, *, window: int) -> None:
        super().__init__()
        self.reads: list[Read] = []
        self.otherwise_at = {
            "/props": {"default_generation_settings": {"n_ctx": window}, "total_slots": 1},
            "/v1/models": {
                "data": [{"id": name, "meta": {"n_ctx": window}} for name in self.models]
            },
        }
        self._llama = httpx.Client(base_url=llama.url, timeout=SECONDS, trust_env=False)
        self._lines: set[str] = set()

    def _answer_to(self, request: Received) -> Answer:
        if request.path not in WIRES:
            return super()._answer_to(request)
        body = {key: value for key, value in request.json.items() if key != "stream_options"}
        counted = self._post("/v1/chat/completions", {**body, "stream": False, "max_tokens": 1})
        if "error" in counted:
            raise RuntimeError(f"llama.cpp says: {counted['error']}")
        found, read = counted["timings"]["cache_n"], counted["timings"]["prompt_n"]
        lines = dict.fromkeys(self._post("/apply-template", body)["prompt"].split("\n"))
        unseen = "\n".join(line for line in lines if line not in self._lines)
        new = len(self._post("/tokenize", {"content": unseen})["tokens"])
        self._lines.update(lines)
        self.reads.append(
            Read(
                purpose=purpose_of(request),
                prompt=found + read,
                read=read,
                twice=max(0, read - new),
            )
        )
        done = Done(prompt=found + read, completion=40, cached=found)
        return Answer(parts=(*said(request), done))

    def _post(self, path: str, body: object) -> Any:
        return self._llama.post(path, json=body).json()


def said(request: Received) -> Iterable[Part]:
    """The script: a tool every other turn, a fact now and then, answers of some length."""
    last = request.json["messages"][-1]
    match purpose_of(request):
        case "naming":
            return (Say("A talk"),)
        case "memory":
            return (Say("NONE"),)
        case "compression":
            return (Say("- they talked of many things\n- open: what of the rest"),)
        case _:
            pass
    number = last["content"].split(" ")[1] if last["role"] == "user" else ""
    if number.isdigit() and int(number) % 2:
        return (Calls((("filesystem", {"action": "write", "path": "n", "content": number}),)),)
    return (Say(f"So it is with {len(request.body)}, as far as one can say. " * 6),)


async def talk(navi: NaviProcess, *, turns: int) -> tuple[str, ...]:
    """A conversation, with time after each turn for what follows it; the types of its events."""
    async with httpx.AsyncClient(base_url=navi.url, timeout=SECONDS, trust_env=False) as client:
        for topic in TOPICS:
            kept = await client.post("/memories", json={"text": f"The user knows much of {topic}"})
            kept.raise_for_status()
        session_id = (await client.post("/sessions", json={})).json()["id"]
        for number in range(turns):
            words = f"Question {number} about {TOPICS[number % len(TOPICS)]}: "
            words += f"and what of the rest of {number}? " * 12
            path = f"/sessions/{session_id}/messages"
            answer = (await client.post(path, json={"content": words})).json()
            if answer["outcome"] != "completed":
                raise RuntimeError(f"turn {number}: {answer}")
            await followed(client, session_id, turns=number + 1)
        events = (await client.get(f"/sessions/{session_id}/events?limit=10000")).json()["events"]
        return tuple(event["type"] for event in events)


async def followed(client: httpx.AsyncClient, session_id: str, *, turns: int) -> None:
    """Wait until the call for facts after the last turn was answered: it is the last that follows."""
    async with asyncio.timeout(SECONDS):
        while True:
            page = await client.get(f"/sessions/{session_id}/events?limit=10000")
            data = [(event["type"], event["data"]) for event in page.json()["events"]]
            asked = [
                d["call_id"] for t, d in data if t == "model_called" and d["purpose"] == "memory"
            ]
            answered = {d["call_id"] for t, d in data if t == "model_replied"}
            if len(answered.intersection(asked)) >= turns:
                return
            await asyncio.sleep(0.1)


async def measured(*, turns: int, window: int) -> Session:
    """One session on servers of its own."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            running_llama(small_model_file(), window=window, template=TEMPLATE) as llama,
            ScriptedLlama(llama, window=window) as server,
            running_navi(
                Path(folder) / "data",
                NAVI_LLM="openai",
                OPENAI_BASE_URL=server.openai_url,
                NAVI_MODEL_SLOTS="",
                CONTEXT_KEEP_RECENT="4",
                CONTEXT_COMPRESSION_THRESHOLD="0.6",
            ) as navi,
        ):
            types = await talk(navi, turns=turns)
            [session] = (await navi.get("/sessions"))["sessions"]
            return Session(reads=tuple(server.reads), types=types, name=session["name"])


def main() -> int:
    """Print the figures; the status is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="python -m bench.prefix", description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    session = asyncio.run(measured(turns=arguments.turns, window=arguments.window))
    happened = {
        type_: session.types.count(type_)
        for type_ in ("tool_finished", "memory_recalled", "context_compressed", "session_renamed")
    }
    rows = {
        purpose: {
            "calls": len(reads),
            "prompt": sum(read.prompt for read in reads),
            "read": sum(read.read for read in reads),
            "twice": sum(read.twice for read in reads),
        }
        for purpose in dict.fromkeys(read.purpose for read in session.reads)
        if (reads := [read for read in session.reads if read.purpose == purpose])
    }
    figures = {"calls": rows, "happened": happened, "read_twice": round(session.twice, 4)}
    if arguments.json:
        sys.stdout.write(f"{json.dumps(figures)}\n")
        return 0
    for purpose, row in rows.items():
        words = "  ".join(f"{key} {value:>8,}" for key, value in row.items())
        sys.stdout.write(f"{purpose:<12} {words}\n")
    words = ", ".join(f"{count} {type_}" for type_, count in happened.items())
    sys.stdout.write(f"{words}\nof all prompt tokens read twice: {session.twice:.1%}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

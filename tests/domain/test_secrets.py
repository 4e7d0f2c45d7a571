"""What is taken for a secret, what is not, and that a text cut into pieces is masked like the whole."""

import random
import re
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from navi.domain.log.secrets import (
    CONTEXT,
    KINDS,
    MASK,
    Masked,
    Secrets,
    masked_event,
    password_in,
    secret_values,
)
from navi.domain.vocabulary.events import (
    Delta,
    Fact,
    ModelReplied,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, MessageId

# Put together here, so that no scanner takes this file for a leak.
API_KEY = "sk-" + "proj-Ab12" * 5
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkw" + ".dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE\nowIB\n-----END RSA PRIVATE " + "KEY-----"
TOKENS = {
    API_KEY: "API key",
    "github_pat_" + "11ABCDEFG0" * 4: "GitHub token",
    "glpat-" + "x1Y2" * 5: "GitLab token",
    "xoxb-" + "1234567890-abcdef": "Slack token",
    "AKIA" + "IOSFODNN7EXAMPLE": "AWS key",
    "AIza" + "SyA1" * 8 + "abc": "Google key",
    "hf_" + "aB3d" * 9: "Hugging Face token",
    "npm_" + "aB3d" * 9: "npm token",
    JWT: "JSON web token",
    PEM: "private key",
}
KNOWN = Secrets({"DEPLOY_TOKEN": "hunter2hunter2"})


@pytest.mark.parametrize(("token", "kind"), TOKENS.items(), ids=range(len(TOKENS)))
def test_a_token_is_known_by_its_form(token: str, kind: str) -> None:
    masked = KNOWN.mask(f"use {token}, it works")

    anchor = next(k.anchor for k in KINDS if token.startswith(k.anchor))
    assert masked.text == f"use {anchor}{MASK}, it works"
    assert masked.names == (kind,)


def test_only_the_secret_part_is_masked() -> None:
    said = (
        "curl -H 'Authorization: Bearer abc123def456ghi7' https://ann:correct-horse@example.org/x"
    )

    masked = KNOWN.mask(said)

    assert masked.text == f"curl -H 'Authorization: Bearer {MASK}' https://ann:{MASK}@example.org/x"
    assert masked.names == ("bearer token", "password in a URL")


@pytest.mark.parametrize(
    "text",
    [
        "task-abcdefghijklmnopqrstuvwxyz1234",
        "risk-assessment-of-the-2026-framework",
        "sk-learn-compatible-estimators",
        "the bearer of this letter is my friend",
        "see https://example.org:8080/path?x=1@2",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "hunter2",
        "",
    ],
)
def test_what_only_looks_similar_stays(text: str) -> None:
    assert KNOWN.mask(text).text == text


def test_values_of_the_environment_are_masked_by_name() -> None:
    values = secret_values(
        {
            "OPENAI_API_KEY": "abcd-1234-efgh",
            "DB_PASSWORD": "secret",
            "POSTGRES_PASSWORD": "postgres",
            "DATABASE_URL": "postgresql://navi:p%40ss-word@db/navi",
            "NATS_URL": "nats://t0ken-t0ken@127.0.0.1:4222",
            "SSH_AUTH_SOCK": "/run/agent/socket",
            "KEYBOARD": "qwertz-layout-1",
            "LANG": "de_DE.UTF-8",
        }
    )
    secrets = Secrets(values)

    masked = secrets.mask("abcd-1234-efgh p@ss-word t0ken-t0ken secret postgres /run/agent/socket")

    assert masked.text == f"ab{MASK} p@{MASK} t0{MASK} secret postgres /run/agent/socket"
    assert set(masked.names) == {"OPENAI_API_KEY", "DATABASE_URL", "NATS_URL"}


def test_headers_of_a_collector_are_masked_each_for_itself() -> None:
    headers = "authorization=Bearer%20opensesame-4711,x-key=k3y-f0r-traces,x-tenant=home"

    masked = Secrets(secret_values({"OTEL_EXPORTER_OTLP_HEADERS": headers})).mask(
        "opensesame-4711 at home with k3y-f0r-traces"
    )

    assert masked.text == f"op{MASK} at home with k3{MASK}"


def test_the_longer_of_two_values_is_masked_whole() -> None:
    secrets = Secrets({"A_KEY": "abcdefgh1", "B_KEY": "abcdefgh12345"})

    assert secrets.mask("abcdefgh12345").text == f"ab{MASK}"


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("nats://token@host:4222", "token"),
        ("nats://user:word@host:4222", "word"),
        ("postgresql://user@host/db", None),
        ("postgresql://user@/db?host=/run/postgresql&password=p%40ss", "p@ss"),
        ("postgresql://user:wo@rd@host/db?password=other", "wo@rd"),
        ("wss://token@host", "token"),
        ("http://[::1", None),
    ],
)
def test_the_password_of_a_url(url: str, password: str | None) -> None:
    assert password_in(url) == password


def test_an_event_says_what_was_masked_in_it_wherever_it_stood() -> None:
    arguments = {"headers": [{"value": f"x {API_KEY}"}], "depth": 3}
    reply = ModelReplied(
        call_id=CallId("c"),
        content="hunter2hunter2",
        thinking="",
        tool_calls=(ToolCall(id=CallId("t"), name="fetch", arguments=arguments),),
        finish_reason="stop",
        usage=Usage(),
        duration_ms=1,
        first_chunk_ms=1,
    )

    masked = masked_event(reply, KNOWN)

    assert isinstance(masked, ModelReplied)
    assert masked.content == f"hu{MASK}"
    assert masked.tool_calls[0].arguments == {"headers": [{"value": f"x sk-{MASK}"}], "depth": 3}
    assert masked.masked == ("DEPLOY_TOKEN", "API key")
    assert masked_event(masked, KNOWN) is masked


def test_what_a_model_calls_a_key_or_an_id_is_masked_in_arguments() -> None:
    secret, other = f"sk-{'a1' * 12}", f"sk-{'b2' * 12}"
    started = ToolStarted(
        call_id=CallId("c"),
        name="t",
        arguments={"id": secret, "owner": [{"node": "hunter2hunter2"}], secret: 1, other: 2},
    )

    masked = masked_event(started, KNOWN)

    assert isinstance(masked, ToolStarted)
    assert masked.arguments == {
        "id": f"sk-{MASK}",
        "owner": [{"node": f"hu{MASK}"}],
        f"sk-{MASK}": 1,
        f"sk-{MASK}{MASK}": 2,
    }
    assert masked_event(masked, KNOWN) is masked


def test_ids_that_clients_made_are_left_alone() -> None:
    said = UserMessageReceived(message_id=MessageId("hunter2hunter2"), content="hello")

    assert masked_event(said, KNOWN) is said


def test_masking_never_makes_an_event_longer() -> None:
    output = ToolFinished(
        call_id=CallId("c"), name="t", outcome="ok", output="hunter2hunter2 " * 9, duration_ms=1
    )
    masked = masked_event(output, KNOWN)

    assert isinstance(masked, ToolFinished)
    assert len(masked.output) < len(output.output)


def test_every_event_can_say_that_it_was_masked() -> None:
    assert "masked" in Fact.__struct_fields__
    assert "masked" in Delta.__struct_fields__
    delta = masked_event(TextDelta(call_id=CallId("c"), text="hunter2hunter2"), KNOWN)
    assert delta == TextDelta(call_id=CallId("c"), text=f"hu{MASK}", masked=("DEPLOY_TOKEN",))


PIECES = st.lists(
    st.one_of(
        st.sampled_from([*TOKENS, "hunter2hunter2", "Bearer ab1" + "c" * 20, "://u:pass-word-1@"]),
        st.sampled_from(["sk", "-", "hunter", " ", "\n", "task-", "-----BEGIN ", "eyJ", ":", "//"]),
        st.text(max_size=6),
    ),
    max_size=8,
)


@given(pieces=PIECES, seed=st.integers(0, 2**32))
def test_a_text_that_comes_in_pieces_is_masked_like_the_whole(pieces: list[str], seed: int) -> None:
    whole = "".join(pieces)
    cuts = random.Random(seed)  # noqa: S311 - a test's own dice
    shown, held, before, rest = "", "", "", whole
    while rest:
        size = cuts.randint(1, 9)
        held, rest = held + rest[:size], rest[size:]
        at = KNOWN.open_at(held, before=before)
        shown += KNOWN.mask(held[:at], before=before).text
        before, held = (before + held[:at])[-CONTEXT:], held[at:]
    shown += KNOWN.mask(held, before=before).text

    assert shown == KNOWN.mask(whole).text


# As their forms are told at greatest length: with every way to part a text tried.
AT_LENGTH = {
    "sk-": r"(?<![A-Za-z0-9])sk-(?=[\w\-]{0,512}?\d)[\w\-]{20,512}",
    "eyJ": r"(?<![A-Za-z0-9])eyJ[\w\-]{10,2048}\.[\w\-]{10,1536}\.[\w\-]{10,500}",
}
WITHIN_EACH_OTHER = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *(k.anchor for k in KINDS),
                *"aA1-_. @:\u00e9",
                "a" * 16,
                "1" * 43,
                "Bearer ",
                *PEM.split("\n"),
            ]
        ),
        st.sampled_from([1, 2, 7, 40, 512, 700]),
    ),
    max_size=9,
)


def masked_one_by_one(text: str) -> Masked:
    """As ``mask`` with every token looked at, wherever it begins."""
    found: list[tuple[int, int, str]] = []
    for kind in KINDS:
        form = re.compile(AT_LENGTH.get(kind.anchor, kind.form.pattern), kind.form.flags)
        for match in filter(None, (form.match(text, at) for at in range(len(text)))):
            own = "secret" in form.groupindex
            start = match.start("secret") if own else match.start() + len(kind.anchor)
            found.append((start, match.end("secret") if own else match.end(), kind.name))
    found.sort()
    furthest = accumulate((end for _, end, _ in found), max, initial=0)
    begin = {start for (start, _, _), end in zip(found, furthest, strict=False) if start >= end}
    hidden = {at for start, end, _ in found for at in range(start, end)}
    shown = "".join(
        MASK if at in begin else "" if at in hidden else char for at, char in enumerate(text)
    )
    return Masked(text=shown, names=tuple(dict.fromkeys(name for _, _, name in found)))


@given(parts=WITHIN_EACH_OTHER)
@example([("sk-", 170), ("a1-", 1), ("sk-", 700), ("1", 20)])
@example([("sk-", 1), ("ask-", 160), ("1-sk-", 2), ("ask-", 400)])
@example([("-eyJaaaaaaaaaa.", 5), ("-eyJ", 400), (".", 1), ("-eyJ", 400)])
@example([(f"{PEM[:32]}BEGIN PRIVATE KEY-----", 3), ("A", 40)])
def test_of_tokens_within_each_other_all_is_masked(parts: list[tuple[str, int]]) -> None:
    text = "".join(part * times for part, times in parts)

    assert Secrets().mask(text) == masked_one_by_one(text)


@pytest.mark.timeout(
    60
)  # many minutes where each token is looked at for itself, and their names added
def test_a_text_in_which_tokens_begin_everywhere_is_masked_in_one_pass() -> None:
    text = ("sk-" * 50 + "1-") * 7000

    assert Secrets().mask(text) == Masked(text=f"sk-{MASK}", names=("API key",))


ODD = Secrets({"QUOTED_KEY": 'a"b\\c\u00e9 d\n3', "DEPLOY_TOKEN": "hunter2hunter2"})


@given(pieces=PIECES, odd=st.booleans())
def test_an_event_is_passed_over_only_where_nothing_in_it_is_to_be_masked(
    pieces: list[str], odd: bool
) -> None:
    text = "".join(pieces) + ('a"b\\c\u00e9 d\n3' if odd else "")
    event = TextDelta(call_id=CallId("c"), text=text)

    masked = masked_event(event, ODD)

    assert isinstance(masked, TextDelta)
    assert masked.text == ODD.mask(text).text

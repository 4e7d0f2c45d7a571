from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from navi.domain.accounts.accounts import (
    FailedTry,
    Presented,
    checked_name,
    checked_password,
    hash_name,
    name_key,
    parse_secret,
    retry_after,
    secret_text,
)
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.errors import BadInput

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
ID = "01990000-0000-7000-8000-00000000000a"
SECRET = "A-_" + "x" * 40


@pytest.mark.parametrize("name", ["ada", "Ada Lovelace", "a@b.example", "o'neil", "Zoë", "x" * 64])
def test_names_that_people_have(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", " ada", "ada ", "a,b", "a\nb", "a\x00", "a  b", "x" * 65, "a/b", "<b>", "a;b"]
)
def test_names_that_nobody_has(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        checked_name(name)
    assert refused.value.field == "name"


def test_neither_case_nor_width_makes_another_name() -> None:
    assert name_key("ADA") == name_key("ada") == name_key("\uff41\uff44\uff41")


@pytest.mark.parametrize("password", ["", "x" * 11, "x" * 1025])
def test_a_password_has_at_least_12_characters(password: str) -> None:
    with pytest.raises(BadInput) as refused:
        checked_password("new", password)
    assert refused.value.field == "new"
    assert "xxx" not in str(refused.value)


# Normalised they would be short enough. To bring n such marks into order takes n² steps.
@pytest.mark.parametrize(
    ("refusing", "characters"),
    [
        (checked_name, 64),
        (name_key, 64),
        (hash_name, 64),
        (partial(checked_password, "new"), 1024),
    ],
)
def test_what_is_too_long_is_refused_before_it_is_normalised(
    refusing: Callable[[str], object], characters: int
) -> None:
    assert refusing("e\u0301" * (characters // 2))

    for text in ("e\u0301" * (characters // 2 + 1), "a" * 1_000_000):
        with pytest.raises(BadInput, match=f"{characters} characters at the most"):
            refusing(text)


def test_a_token_is_read_as_it_was_written() -> None:
    text = secret_text(ID, SECRET)

    assert text == f"navi_{ID}_{SECRET}"
    assert parse_secret(text) == Presented(id=ID, secret=SECRET)
    for wrong in (text[:-1], f"{text}x", text.upper(), f" {text}", text.replace("-", "0"), ""):
        assert parse_secret(wrong) is None


def test_a_token_is_masked_wherever_it_stands() -> None:
    masked = Secrets().mask(f"use {secret_text(ID, SECRET)}, it works")

    assert masked.text == "use navi_***, it works"
    assert masked.names == ("navi token",)


def tries(*names: str, seconds_ago: int = 30) -> list[FailedTry]:
    at = NOW - timedelta(seconds=seconds_ago)
    return [
        FailedTry(name_sha256=hash_name(name), at=at + timedelta(seconds=number))
        for number, name in enumerate(names)
    ]


def test_after_five_wrong_passwords_a_name_rests_and_others_do_not() -> None:
    assert retry_after(tries(*["ada"] * 4), "ada", NOW) is None

    five = tries(*["ada"] * 5)

    assert retry_after(five, "ADA", NOW) == 30  # until the first of the five is a minute ago
    assert retry_after(five, "bob", NOW) is None
    assert retry_after(five, "ada", NOW + timedelta(seconds=30)) is None


def test_a_clock_that_was_ahead_keeps_nobody_out() -> None:
    assert retry_after(tries(*["ada"] * 5, seconds_ago=-7200), "ada", NOW) is None
    # Another node's clock is 30 seconds ahead: they count, and nobody waits for more than a minute.
    assert retry_after(tries(*["ada"] * 5, seconds_ago=-30), "ada", NOW) == 60


def test_after_twenty_wrong_passwords_an_address_rests() -> None:
    names = [f"name {number}" for number in range(20)]

    assert retry_after(tries(*names[:19]), "bob", NOW) is None
    assert retry_after(tries(*names), "bob", NOW) == 30
    assert retry_after(tries(*names, seconds_ago=90), "bob", NOW) is None

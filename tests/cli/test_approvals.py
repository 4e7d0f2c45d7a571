"""What ``navi approvals`` prints of a call that waits."""

from datetime import UTC, datetime

import pytest

from navi.application.reading.list_approvals import WaitingApproval
from navi.cli.chat.approvals import print_approval
from navi.domain.vocabulary.ids import CallId, Owner, SessionId


def test_the_whole_reason_is_printed_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    approval = WaitingApproval(
        session_id=SessionId("s1"),
        owner=Owner("local"),
        call_id=CallId("call_1"),
        name="notes__read",
        arguments={},
        reason=f"It has changed:\n--- allowed\n+{'x' * 300}\x1b[2J\n-the last",
        preview="{}",
        at=datetime(2026, 11, 24, tzinfo=UTC),
    )

    print_approval(approval, {})

    assert capsys.readouterr().out.splitlines() == [
        "call_1  notes__read  in s1",
        "    since 2026-11-24T00:00:00.000000Z: It has changed:",
        "    --- allowed",
        f"    +{'x' * 300}[2J",
        "    -the last",
        "    {}",
    ]

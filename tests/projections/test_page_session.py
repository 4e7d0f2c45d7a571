"""A session in the page where navi answers late, refuses at first, or is asked for two things at once."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.support.event_consumer import NODE

PROGRAM = Path(__file__).parents[1] / "support" / "page_session.mjs"


async def outcome(case: str) -> Any:
    """What a case comes to in the page's own modules."""
    process = await asyncio.create_subprocess_exec(
        NODE, PROGRAM, case, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


async def test_no_answer_stands_under_an_id_before_its_name_is_known() -> None:
    assert await outcome("names_before_answers") == {"names": ["Tea Master"]}


async def test_names_that_nobody_gives_keep_no_session_shut() -> None:
    assert await outcome("opens_without_names") == {"name": "tea"}


async def test_of_a_session_that_was_left_before_it_opened_no_events_are_read() -> None:
    assert await outcome("leaves_before_it_opens") == {"read": ["other"]}


async def test_what_the_page_lives_by_is_asked_for_until_navi_answers() -> None:
    assert await outcome("asks_again_who_and_what_there_is") == {
        "refused": ["/auth/me", "/profiles"],
        "who": "local",
        "name": "Tea Master",
    }


async def test_a_session_that_could_not_be_opened_at_first_has_each_event_once() -> None:
    found = await outcome("opens_again")
    assert found["seqs"] == list(range(1, found["count"] + 1))


async def test_an_answer_that_is_late_takes_no_text_from_the_moment_looked_at() -> None:
    assert await outcome("deltas_of_the_moment") == {"text": "part of 12"}


async def test_at_a_moment_the_output_of_a_tool_that_had_ended_stands_there_once() -> None:
    assert await outcome("output_of_the_moment") == {"outputs": ["done", "half"], "doing": "tool"}


async def test_of_a_subagent_that_works_for_long_only_open_calls_are_read_again() -> None:
    assert await outcome("deltas_of_a_subagent") == {
        "live": "41",
        # At 3 nothing is open; at 12 the same call is as at 10; at 30 nobody looks at 12 any more.
        "asked": ["4", "21"],
        "stopped": ["4"],
    }


async def test_a_moment_that_is_not_there_yet_is_now() -> None:
    assert await outcome("moments_that_are_not_there_yet") == {"7": 7, "8": None}


async def test_a_message_that_is_refused_after_its_session_was_left_comes_back() -> None:
    assert await outcome("refused_after_it_was_left") == {
        "kept": 1,
        "told": None,
        "returned": "Too much.",
        "left": 0,
    }


async def test_what_could_not_be_changed_is_shown_as_it_was() -> None:
    before = {"tea": ["Tea", False], "other": ["Other", False]}
    assert await outcome("changes_that_fail") == {
        "found": [
            {"tea": ["Green tea", False], "other": ["Other", True]},
            before,
            {**before, "tea": ["Green tea", True]},
            before,
        ]
    }


async def test_the_newest_that_is_known_of_a_session_is_shown() -> None:
    assert await outcome("the_newest_row_stays") == {"kept": "third"}


async def test_what_is_said_from_a_moment_arrives_though_nobody_answers_at_first() -> None:
    assert await outcome("says_from_a_moment") == {"said": [["fork", "Otherwise."]]}


async def test_a_fork_from_an_answer_or_before_a_message_has_all_that_stands_above() -> None:
    found = await outcome("forks_where_it_was_clicked")
    # The end of its turn, the last result of its two tools, and the end again.
    assert found["after"] == [8, 19, 23]
    # Its receipt, the start of the turn that it waited for, and where it was taken into a turn.
    assert found["before"] == found["again"] == [1, 10, 19]


async def test_a_file_that_is_sent_from_a_moment_before_it_came_goes_into_the_fork() -> None:
    assert await outcome("attaches_to_the_past") == {
        "isTaken": True,
        "said": [["fork", ["plan.md", "tea (1).md"]]],
        "bytes": [["tea.md", "leaves"]],
        "forks": 1,
    }


async def test_no_fork_is_left_of_a_message_that_is_refused() -> None:
    assert await outcome("is_refused_in_a_new_session") == {
        "isTaken": False,
        "deleted": ["/sessions/fork"],
        "at": True,
        "sent": [],
    }


async def test_a_second_click_makes_no_second_fork() -> None:
    assert await outcome("forks_once") == {"done": [True, False, False], "forks": 1}


async def test_a_turn_goes_on_once() -> None:
    assert await outcome("goes_on_once") == {"can": [False, True, False, False]}


async def test_an_admin_reads_somebody_elses_session_and_does_not_have_it() -> None:
    assert await outcome("somebody_elses_session") == {
        "bob": {"goesOn": False, "listed": []},
        "local": {"goesOn": True, "listed": [True]},
    }


async def test_a_password_that_is_wrong_ends_no_login() -> None:
    assert await outcome("a_password_that_is_wrong") == {"isOut": [False, True]}


async def test_who_signs_in_again_has_the_draft_and_another_person_does_not() -> None:
    assert await outcome("somebody_signs_in") == {
        "ada": {
            "out": False,
            "who": "ada",
            "draft": "half a thou",
            "seen": "ada",
            "theme": "dark",
        },
        "bob": {"out": True, "who": "ada", "draft": None, "seen": None, "theme": "dark"},
    }


async def test_what_is_to_be_deleted_is_before_its_owner_signs_out() -> None:
    session_id = "01990000-0000-7000-8000-000000000001"
    assert await outcome("departs_before_it_signs_out") == {
        "asked": [["DELETE", f"/sessions/{session_id}"], ["POST", "/auth/logout"]]
    }


async def test_what_was_said_is_sent_before_its_author_signs_out_or_lost_by_a_click() -> None:
    assert await outcome("says_all_before_it_signs_out") == {
        "first": {
            "told": "The message was not sent: Later",
            "actions": ["Sign out"],
            "reloads": 0,
        },
        "second": {"taken": ["a: one", "b: two"], "reloads": 1},
        "third": {"taken": 2, "reloads": 2},
    }


async def test_what_cannot_be_sent_before_signing_out_keeps_no_other_session_back() -> None:
    assert await outcome("signs_out_although_some_cannot_be_sent") == {
        "taken": ["b: well"],
        "status": 413,
        "keptOfDeleted": None,
    }


async def test_an_upload_that_does_not_go_on_is_given_up() -> None:
    assert await outcome("upload_without_progress") == {
        "aborted": [False, False, False, True],
        "why": "navi does not answer.",
    }


async def test_arguments_whose_integers_would_be_rounded_are_not_edited() -> None:
    rounded = "This page cannot keep integers beyond ±9007199254740991 exactly."
    assert await outcome("arguments_that_are_edited") == [
        [True, None],
        [False, rounded],
        [False, rounded],
        [True, None],
        [True, "The arguments are an object: {…}"],
    ]


async def test_files_wait_for_a_first_message_only_where_nothing_was_said() -> None:
    gone: dict[str, Any] = {"made": None, "kept": None, "names": []}
    assert await outcome("files_ahead_of_a_message") == {
        "nothing_said": {"made": "ahead", "kept": "ahead", "names": ["a.txt"]},
        "said": gone,
        "deleted": gone,
        "away": {"made": 503, "kept": "ahead", "names": ["a.txt"]},
    }


async def test_a_file_that_was_refused_is_shown_until_it_is_taken_away() -> None:
    assert await outcome("files_that_were_refused") == {
        "files": ["a.txt", "b.txt"],
        "made": "newer",
        "left": 2,
    }


async def test_what_is_attached_is_the_same_in_all_tabs() -> None:
    assert await outcome("files_of_another_tab") == {
        "names": [["a.txt", "b.txt"], []],
        "isKept": None,
    }


async def test_links_lead_to_what_tools_made_and_to_uploads() -> None:
    files = "/sessions/01990000-0000-7000-8000-000000000001"
    assert await outcome("links_to_files") == {
        "links": {
            "report.md": f"{files}/workspace/report.md",
            "./report.md": f"{files}/workspace/report.md",
            "plan.md": f"{files}/files/plan.md",
            "uploads/data 1.csv": f"{files}/files/data%201.csv",
            "../x.md": None,
            "uploads/../x.md": None,
        },
        "picture": f"{files}/workspace/plot.png",
        "outside": None,
    }
    assert await outcome("knows_its_uploads") == {"has": [True, True, False]}


async def test_characters_that_nobody_sees_do_not_hide_where_a_link_leads() -> None:
    unseen = "\u034f\u115f\u200d\u202e\u3164\ufe0f\ufffb\U000e0041\U000e0100"
    assert await outcome("hosts_beside_links") == {
        "hosts": dict.fromkeys(unseen, "evil.example"),
        "honest": "A\u200d\ufe0f\U000e0100",  # they shape what stands before them
    }


async def test_words_that_are_erased_go_from_a_page_that_is_open() -> None:
    erased = "[erased]"
    assert await outcome("words_that_are_erased") == {
        "found": [
            ["I like sencha", "Hello", "Sencha it is"],
            [erased, "Hello", "Sencha it is"],
            [erased, erased, erased],
        ],
        "seqs": list(range(1, 11)),
    }
    assert await outcome("text_that_is_erased") == {"now": ""}


async def test_what_went_wrong_is_told_in_words() -> None:
    assert await outcome("what_went_wrong") == {
        "/proxy": "navi answered with an error (502).",
        "/odd": "navi answered with an error (500).",
        "/navi": "There is no such tea",
        "/nobody": "navi does not answer.",
    }


async def test_times_are_written_as_where_the_reader_lives() -> None:
    found = await outcome("times_and_numbers")
    assert found["en-GB"].startswith("3 Nov 2026")
    assert found["en-US"].startswith("Nov 3, 2026")
    assert found["de-AT"].startswith("03.11.2026")
    assert found["fr"].startswith("3 Nov 2026")


async def test_times_are_written_where_a_browser_names_what_is_no_language() -> None:
    found = await outcome("times_and_numbers")
    assert found["en-US@posix"].startswith("Nov 3, 2026")
    assert found["en-x"].startswith("3 Nov 2026")


async def test_one_writes_on_while_what_was_said_is_summarised() -> None:
    assert await outcome("compresses_meanwhile") == {
        "isTaken": True,
        "told": ["Summarising what was said so far …", "There is nothing to summarise yet."],
    }


async def test_words_behind_a_command_that_takes_none_are_a_message() -> None:
    assert await outcome("commands") == {
        "/new": "new",
        " /stop ": "stop",
        "/rename Green tea": "rename",
        "/new feature: tea": None,
        "/compress the pictures": None,
        "/rename": "rename",
        "/tea": None,
    }


async def test_a_long_list_is_read_as_far_as_somebody_looks_and_stays_whole() -> None:
    assert await outcome("a_long_list") == {
        "isWhole": True,
        "limits": [500, 500, 500],
        "most": 500,
        "isStill": True,
    }

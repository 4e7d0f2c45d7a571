"""Batch concurrent questions: those that come while one round is under way share the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Gathered(Generic[Question, Answer]):
    """Asks once for all who ask at once, as a group commit does: a burst then costs a few round trips.

    Each answer is of a moment after its question was asked, never of a round that had begun before.
    """

    def __init__(
        self, answer: Callable[[Collection[Question]], Awaitable[Mapping[Question, Answer]]]
    ) -> None:
        """Nothing is asked yet.

        Args:
            answer: answers different questions, all of them, or raises for all; it sets the deadline.
        """
        self._answer = answer
        self._waiting: dict[Question, asyncio.Future[Answer]] = {}
        self._rounds: asyncio.Task[None] | None = None  # ends by itself when nobody waits

    async def ask(self, question: Question) -> Answer:
        """The answer, or what asking for it raised."""
        return (await self.ask_all((question,)))[0]

    async def ask_all(self, questions: Sequence[Question]) -> Sequence[Answer]:
        """The answers, of one round."""
        loop = asyncio.get_running_loop()
        for question in questions:
            if question not in self._waiting:
                self._waiting[question] = loop.create_future()
        waiting = [self._waiting[question] for question in questions]
        if self._rounds is None:
            self._rounds = asyncio.create_task(self._answer_all())
        # Who gives up takes the answer from nobody else.
        return [await asyncio.shield(one) for one in waiting]

    async def _answer_all(self) -> None:
        asked: dict[Question, asyncio.Future[Answer]] = {}
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, {}
                try:
                    found = await self._answer(asked.keys())
                    answers = {question: found[question] for question in asked}
                except Exception as error:  # noqa: BLE001 - handed on to who asked
                    for waiting in asked.values():
                        waiting.set_exception(error)
                        waiting.exception()  # looked at: all who asked may have given up
                else:
                    for question, waiting in asked.items():
                        waiting.set_result(answers[question])
        finally:
            self._rounds = None
            for waiting in (*asked.values(), *self._waiting.values()):
                waiting.cancel()
            self._waiting = {}

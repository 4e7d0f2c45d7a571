"""Ids: none twice, also where random bytes are fetched many at a time."""

import os
from collections import Counter

from navi.adapters.system import RANDOM_BYTES, RandomIds
from navi.domain.vocabulary.ids import is_uuid


def test_no_id_is_given_twice_by_whatever_instance() -> None:
    one, other = RandomIds(), RandomIds()

    ids = [ids.uuid() for _ in range(RANDOM_BYTES // 10) for ids in (one, other)]

    assert len(set(ids)) == len(ids)
    assert all(map(is_uuid, ids))
    # Version 7, and every variant that is left to chance.
    assert {id_[14] for id_ in ids} == {"7"}
    assert set(Counter(id_[19] for id_ in ids)) == set("89ab")


def test_a_child_process_does_not_give_the_ids_of_its_parent() -> None:
    ids = RandomIds()
    ids.uuid()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:  # pragma: no cover - another process
        os.write(writer, ids.hex12().encode())
        os._exit(0)
    os.waitpid(child, 0)
    its = os.read(reader, 12).decode()
    os.close(reader)
    os.close(writer)

    assert its != ids.hex12()

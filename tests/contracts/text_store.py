"""What every store of long texts promises."""

from hashlib import sha256

import pytest

from navi.ports.text_store import TextStore

TEXT = "You are navi.\u0000 Grüße"
OTHER = "Other words of navi."


def name_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class TextStoreContract:
    """Inherit, and give the fixture ``store``: one that keeps nothing yet."""

    @pytest.fixture
    def store(self) -> TextStore:
        raise NotImplementedError

    async def test_a_text_is_found_by_the_hash_of_its_bytes(self, store: TextStore) -> None:
        assert await store.put(TEXT) == (name_of(TEXT),)

        assert await store.get(name_of(TEXT)) == TEXT

    async def test_a_text_that_is_not_kept_is_none(self, store: TextStore) -> None:
        await store.put(OTHER)

        assert await store.get(name_of(TEXT)) is None
        assert await store.get("no hash") is None

    async def test_a_text_that_is_there_is_put_again_as_the_same(self, store: TextStore) -> None:
        await store.put(TEXT)

        assert await store.put(TEXT) == (name_of(TEXT),)
        assert await store.drop([name_of(TEXT)]) == 1

    async def test_texts_that_are_put_together_are_named_in_their_order(
        self, store: TextStore
    ) -> None:
        await store.put(TEXT)

        names = await store.put(OTHER, TEXT, OTHER)

        assert names == (name_of(OTHER), name_of(TEXT), name_of(OTHER))
        assert [await store.get(name) for name in names] == [OTHER, TEXT, OTHER]

    async def test_no_text_has_no_name(self, store: TextStore) -> None:
        assert await store.put() == ()

    async def test_what_is_dropped_is_counted_where_it_was_there(self, store: TextStore) -> None:
        await store.put(TEXT, OTHER)

        assert await store.drop([name_of(TEXT), "no hash", "00" * 32]) == 1

        assert [await store.get(name_of(text)) for text in (TEXT, OTHER)] == [None, OTHER]

    async def test_a_text_is_forgotten_that_contains_all_the_parts(self, store: TextStore) -> None:
        await store.put(TEXT, OTHER)

        await store.forget("navi", "Grüße")

        assert [await store.get(name_of(text)) for text in (TEXT, OTHER)] == [None, OTHER]

    async def test_a_text_that_went_can_be_put_again(self, store: TextStore) -> None:
        await store.put(TEXT, OTHER)
        await store.drop([name_of(TEXT)])
        await store.forget("Other")

        assert await store.put(TEXT, OTHER) == (name_of(TEXT), name_of(OTHER))

        assert [await store.get(name_of(text)) for text in (TEXT, OTHER)] == [TEXT, OTHER]

    async def test_texts_that_nobody_changed_are_not_damaged(self, store: TextStore) -> None:
        await store.put(TEXT, OTHER)

        assert await store.damaged() == frozenset()

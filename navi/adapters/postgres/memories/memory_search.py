"""Search memories in Postgres: full text, and vector distance."""

from collections.abc import Sequence

from navi.adapters.postgres.connect import Pool, fetch
from navi.domain.memory.memory import MIN_SIMILARITY, Vector
from navi.domain.vocabulary.ids import Owner

CANDIDATES = 50  # best of each ranking that are fused
# Memories that a word is looked up in. Which others have it, too, is not worth the time: it says little, and only
# decides between memories that are equal otherwise.
MAX_HITS = 2_000

# Any word of the question counts, the rarer among the owner's memories the more (squared: once in the
# question, once in the memory; the logarithm is BM25's), so that "what is my" and "the user" count for
# little in every language. A word is found by its beginning, too, without its last two letters where
# three are left, for endings; that counts less. What has little in common with the question, compared
# to the best, is left out. First comes what a web search for the question would find. Where no word is
# found, the question is looked for as it stands: not every script has spaces.
_BY_WORDS = """
    with lexeme as (
      select word, replace(replace(word, '\\', '\\\\'), '''', '''''') as quoted,
             left(word, greatest(3, length(word) - 2)) as beginning
      from unnest(tsvector_to_array(to_tsvector('simple', $2))) as word
      order by length(word) desc, word limit 32
    ), term as materialized (
      select word, ('''' || quoted || '''')::tsquery as exact,
             ('''' || replace(replace(beginning, '\\', '\\\\'), '''', '''''') || ''''
              || case when length(word) < 3 then '' else ':*' end)::tsquery as begins
      from lexeme
    ), hit as materialized (
      select m.memory_id, t.word, m.weight
      from term t
      cross join lateral (
        select array(select memory_id from navi.memory
                     where owner = $1 and search @@ t.exact limit $4) as ids
        offset 0  -- else it is looked for twice
      ) e
      cross join lateral (
        select unnest(e.ids) as memory_id, 1.0 as weight
        union all
        (select memory_id, 0.6 from navi.memory
         where owner = $1 and search @@ t.begins and not search @@ t.exact
         limit $4 - cardinality(e.ids))
      ) m
    ), rarity as (
      select h.word, ln(1 + (n.memories - count(*) + 0.5) / (count(*) + 0.5)) ^ 2
                     * case when count(*) < $4 then 1 else 0.01 end as weight
      from hit h cross join (select count(*) as memories from navi.memory where owner = $1) n
      group by h.word, n.memories
    ), scored as materialized (
      select h.memory_id, sum(h.weight * r.weight) as score
      from hit h join rarity r using (word)
      group by h.memory_id
    ), best as (
      select max(score) as score from scored
    ), found as (
      select s.memory_id, s.score,
             querytree(websearch_to_tsquery('simple', $2)) not in ('', 'T')
             and m.search @@ websearch_to_tsquery('simple', $2) as whole
      from scored s join navi.memory m on m.owner = $1 and m.memory_id = s.memory_id
      union all
      select m.memory_id, 0, false from navi.memory m, best b
      where m.owner = $1 and b.score is null and position(lower($2) in lower(m.text)) > 0
    )
    select f.memory_id::text
    from found f join navi.memory m on m.owner = $1 and m.memory_id = f.memory_id, best b
    where f.whole or f.score >= 0.3 * coalesce(b.score, 0)
    order by f.whole desc, f.score desc, m.at desc, f.memory_id desc
    limit $3"""

# Vectors of another dimension must not even be compared: that is an error.
_NEAREST = """
    with same as materialized (
      select memory_id, embedding from navi.memory_embedding
      where owner = $1 and model = $2 and dimension = $3 and embedding is not null
    )
    select memory_id::text, 1 - (embedding <=> $4::text::vector) as similarity from same
    order by embedding <=> $4::text::vector, memory_id
    limit $5"""


async def by_words(pool: Pool, owner: Owner, query: str) -> Sequence[str]:
    """Ids of the memories that have words of the question, best first.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    rows = await fetch(pool, _BY_WORDS, owner, query, CANDIDATES, MAX_HITS)
    return tuple(row["memory_id"] for row in rows)


async def nearest(pool: Pool, owner: Owner, *, model: str, vector: Vector) -> Sequence[str]:
    """Ids of the memories that mean something like the question, best first.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    rows = await fetch(pool, _NEAREST, owner, model, len(vector), as_literal(vector), CANDIDATES)
    # The similarity to a vector without a length is not a number, and so above nothing.
    return tuple(row["memory_id"] for row in rows if row["similarity"] >= MIN_SIMILARITY)


def as_literal(vector: Vector) -> str:
    """A vector as pgvector reads it; its own codec wants numpy, for which nothing else has a use."""
    return f"[{','.join(map(repr, vector))}]"

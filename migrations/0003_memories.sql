-- What navi remembers about its users: a read model of memory_saved and memory_forgotten, safe to throw
-- away; how far it is stands in navi.checkpoint as the projection "memories".

do $$ begin
  if not exists (select from pg_extension where extname = 'vector') then
    if not exists (select from pg_available_extensions where name = 'vector') then
      raise exception 'this Postgres has no pgvector: install it on the server'
        using errcode = 'undefined_object';
    end if;
    create extension vector;
  end if;
end $$;

create table navi.memory (
  owner      text        not null,
  memory_id  uuid        not null,
  session_id uuid        not null,  -- of the stream in which it was saved last, at seq
  seq        bigint      not null,
  source_seq bigint,
  text       text        not null,
  at         timestamptz not null,
  -- "simple" has no language: the embedded Postgres has no other dictionaries, and users mix languages.
  -- What is longer than a memory may be is found by its beginning.
  search     tsvector    not null generated always as (to_tsvector('simple', left(text, 20000))) stored,
  primary key (owner, memory_id)
);

create index memory_newest on navi.memory (owner, at desc, memory_id desc);
create index memory_search on navi.memory using gin (search);

-- Partitions of the log are applied in any order: what is forgotten must not come back with a
-- memory_saved that is read later.
create table navi.memory_forgotten (
  owner     text not null,
  memory_id uuid not null,
  primary key (owner, memory_id)
);

-- Without a fixed dimension and without an index: several models live side by side while one replaces the
-- other, and a search compares with each memory of one owner exactly: 12 ms a thousand of 768 numbers.
-- An approximate index wants one dimension, filters by owner only afterwards, and pays from 50,000 on.
-- embedding is null where the model refused the text.
create table navi.memory_embedding (
  owner     text    not null,
  memory_id uuid    not null,
  model     text    not null,
  dimension integer not null,
  embedding vector  check (vector_dims(embedding) = dimension),
  primary key (owner, model, memory_id),
  foreign key (owner, memory_id) references navi.memory on delete cascade
);

create index memory_embedding_of on navi.memory_embedding (owner, memory_id);

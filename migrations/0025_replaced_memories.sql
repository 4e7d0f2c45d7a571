-- Texts that memories had before they were changed, until their words are gone from the log, wherever that is cut off:
-- as memory_forgotten keeps those of forgotten ones. A navi of before notes nothing, and erases all by itself.
create table navi.memory_replaced (
  mark       uuid        not null primary key default gen_random_uuid(),
  owner      text        not null,
  memory_id  uuid        not null,
  session_id uuid        not null,
  source_seq bigint,
  at         timestamptz not null,
  text       text        not null,
  noted_at   timestamptz not null default now()
);

-- Who begins a turn behind this moment does not know the memory. The default is for a navi of before.
alter table navi.memory_forgotten add column noted_at timestamptz not null default now();

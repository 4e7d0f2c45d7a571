-- What is left of a forgotten memory until its words are gone from the log, wherever that is cut off: the memory as
-- it was. mark is null where they are gone. A navi of before notes nothing, and erases all by itself.
alter table navi.memory_forgotten
  add column mark       uuid,
  add column session_id uuid,
  add column source_seq bigint,
  add column at         timestamptz,
  add column text       text;

create index memory_unerased on navi.memory_forgotten (mark) where mark is not null;

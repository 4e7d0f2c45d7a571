-- The same append with half the work around its insert: what begins a session is told apart, so that nothing is
-- looked at for it where none begins; of each session the last event is looked at, and no other; positions are
-- counted where the rows are. The functions of before stay for nodes of the versions before.

create type navi.append_session as (
  session_id uuid, owner text, forked_from uuid, base_seq bigint, base_hash bytea
);

create type navi.append_slice as (session_id uuid, seq bigint, position bigint, hash bytea);

create type navi.append_event as (
  slice int,   -- which one, from 1
  session_id uuid, seq bigint, id uuid, type text, v smallint, at timestamptz, turn_id uuid, subagent_id text,
  data json, salt bytea, digest bytea, hash bytea
);

-- Appends slices (consecutive events of one session each, a session at most once) to one partition. A slice says
-- which event is the session's last; the events are in order of their slices. Sessions that begin are named, too.
-- Gives the head before, and for each slice whether it fits: where the session has moved on it is left out, the
-- others are committed, their events one behind another.
-- For connections with plan_cache_mode = force_generic_plan and without enable_seqscan, enable_bitmapscan and
-- enable_sort (Writer sees to it): planning takes five times as long as running, so it is done once a connection,
-- maybe while a leaf is empty, and has to be right for a full one: only point lookups are left to choose from.
create function navi.append(
  p_partition smallint, sessions navi.append_session[], slices navi.append_slice[], events navi.append_event[],
  out base bigint, out fits boolean[]
) language plpgsql volatile as $$
declare
  made uuid[];
begin
  -- Held to the end of the commit: positions are in order of commits. The next statement has a new snapshot
  -- and sees all that the holder before committed.
  perform pg_advisory_xact_lock(7001, p_partition);

  if cardinality(sessions) > 0 then
    with made_now as (
      insert into navi.session (session_id, partition, owner, forked_from, base_seq, base_hash)
      select s.session_id, p_partition, s.owner, s.forked_from, s.base_seq, s.base_hash from unnest(sessions) s
      on conflict do nothing
      returning session_id)
    select array_agg(m.session_id) into made from made_now m;
  end if;

  select (select e.position from navi.event e
           where e.partition = p_partition order by e.position desc limit 1),
         array(
           select coalesce(
             (select e.position = s.position and e.seq = s.seq and e.hash = s.hash
                from navi.event e
               where e.partition = p_partition and e.session_id = s.session_id
               -- An order that only the index on (session_id, seq) has: on an empty leaf the primary key, of
               -- which nothing but the partition is known here, would look as cheap, and be walked later.
               order by e.session_id desc, e.seq desc limit 1),
             s.session_id = any (made), false)
             from unnest(slices) s)
    into base, fits;
  if base is null then
    select l.floor into strict base from navi.log_partition l where l.partition = p_partition;
  end if;

  insert into navi.event (partition, position, session_id, seq, id, type, v, at, turn_id, subagent_id,
                          data, salt, digest, hash)
  select p_partition, base + row_number() over (), e.session_id, e.seq, e.id, e.type, e.v, e.at, e.turn_id,
         e.subagent_id, e.data, e.salt, e.digest, e.hash
    from unnest(events) e
   where fits[e.slice];
end $$;

-- The same append, told in rows: an array of slices and one of events, instead of one for each of their fields,
-- of which driver and server had to look at every element. The function of before stays for nodes of the version
-- before.

create type navi.new_slice as (
  session_id uuid, owner text, new boolean, forked_from uuid, expected bigint, position bigint, hash bytea, count int
);

create type navi.new_event as (
  slice int,   -- which one, from 1
  nth   int,   -- place within the slice, from 0
  session_id uuid, seq bigint, id uuid, type text, v smallint, at timestamptz, turn_id uuid, subagent_id text,
  data json, salt bytea, digest bytea, hash bytea
);

-- Appends slices (consecutive events of one session each, a session at most once) to one partition.
-- Gives for each slice the position of its first event, or null where the session has moved on: such a
-- slice is left out, the others are committed.
-- For connections with plan_cache_mode = force_generic_plan and without enable_seqscan, enable_bitmapscan and
-- enable_sort (Writer sees to it): planning takes five times as long as running, so it is done once a connection,
-- maybe while a leaf is empty, and has to be right for a full one: only point lookups are left to choose from.
-- Not as settings of the function: to set and to restore them took a fifth of each call.
create function navi.append(p_partition smallint, slices navi.new_slice[], events navi.new_event[])
returns bigint[] language plpgsql volatile as $$
declare
  base   bigint;
  first  bigint[];
begin
  -- Held to the end of the commit: positions are in order of commits. The next statement has a new snapshot
  -- and sees all that the holder before committed.
  perform pg_advisory_xact_lock(7001, p_partition);
  select e.position into base from navi.event e
   where e.partition = p_partition order by e.position desc limit 1;
  if base is null then
    select l.floor into strict base from navi.log_partition l where l.partition = p_partition;
  end if;

  with s as materialized (
    select * from unnest(slices)
      with ordinality as t(session_id, owner, new, forked_from, expected, position, hash, count, nth)
  ), made as (
    insert into navi.session (session_id, partition, owner, forked_from, base_seq, base_hash)
    select s.session_id, p_partition, s.owner, s.forked_from, s.expected, s.hash from s where s.new
    on conflict do nothing
    returning session_id
  ), checked as (
    select s.nth, s.count,
           case when s.new then made.session_id is not null
                else previous.hit is not null and next.hit is null end as fits
      from s
      left join made on made.session_id = s.session_id
      left join lateral (
        select true as hit from navi.event e
         where not s.new and e.partition = p_partition and e.position = s.position
           and e.session_id = s.session_id and e.seq = s.expected and e.hash = s.hash
         limit 1) previous on true
      left join lateral (
        select true as hit from navi.event e
         where not s.new and e.partition = p_partition
           and e.session_id = s.session_id and e.seq > s.expected
         -- An order that only the index on (session_id, seq) has: on an empty leaf the primary key, of which
         -- nothing but the partition is known here, would look as cheap, and be walked from end to end later.
         order by e.session_id, e.seq limit 1) next on true
  ), placed as (
    select c.nth,
           case when c.fits then
             base + 1 - c.count + sum(case when c.fits then c.count else 0 end) over (order by c.nth)
           end as position
      from checked c
  )
  select array_agg(p.position order by p.nth) into first from placed p;

  insert into navi.event (partition, position, session_id, seq, id, type, v, at, turn_id, subagent_id,
                          data, salt, digest, hash)
  select p_partition, first[e.slice] + e.nth, e.session_id, e.seq, e.id, e.type, e.v, e.at, e.turn_id,
         e.subagent_id, e.data, e.salt, e.digest, e.hash
    from unnest(events) e
   where first[e.slice] is not null;

  return first;
end $$;

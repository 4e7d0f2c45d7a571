-- The same append, planned once a connection instead of at every call.

-- Appends slices (consecutive events of one session each, a session at most once) to one partition.
-- Gives for each slice the position of its first event, or null where the session has moved on: such a
-- slice is left out, the others are committed.
create or replace function navi.append(
  p_partition smallint,
  s_session uuid[], s_owner text[], s_new boolean[], s_forked_from uuid[],
  s_expected bigint[], s_position bigint[], s_hash bytea[], s_count int[],
  e_id uuid[], e_type text[], e_at timestamptz[], e_turn_id uuid[], e_subagent_id text[], e_data json[],
  -- salt (16 bytes), digest (32), hash (32), v (2), nth within the slice (3), slice (2), big-endian: the
  -- driver looks at every element of every array, which costs more than taking these apart here.
  e_packed bytea[]
) returns bigint[]
language plpgsql volatile
-- Planning these statements takes five times as long as running them for one slice, so they are planned once a
-- connection. That plan may be made while a leaf is empty and has to be right for a full one: the settings
-- leave point lookups alone to choose from.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
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
    select * from unnest(s_session, s_owner, s_new, s_forked_from, s_expected, s_position, s_hash, s_count)
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
  select p_partition, first[e.slice] + e.nth, s_session[e.slice], s_expected[e.slice] + 1 + e.nth,
         e.id, e.type, e.v, e.at, e.turn_id, e.subagent_id, e.data,
         substr(e.packed, 1, 16), substr(e.packed, 17, 32), substr(e.packed, 49, 32)
    from (
      select x.*,
             (get_byte(packed, 80) << 8) + get_byte(packed, 81) as v,
             (get_byte(packed, 82) << 16) + (get_byte(packed, 83) << 8) + get_byte(packed, 84) as nth,
             (get_byte(packed, 85) << 8) + get_byte(packed, 86) as slice
        from unnest(e_id, e_type, e_at, e_turn_id, e_subagent_id, e_data, e_packed)
          as x(id, type, at, turn_id, subagent_id, data, packed)
      offset 0) e
   where first[e.slice] is not null;

  return first;
end $$;

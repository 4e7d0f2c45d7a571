-- The event log: one row an event, dense positions within a log partition, dense seq within a session.

-- Which log this is: JetStream streams are tied to it, so that another database is noticed.
create table navi.log (
  only_row boolean     primary key default true check (only_row),
  log_id   uuid        not null default gen_random_uuid(),
  made_at  timestamptz not null default now()
);
insert into navi.log default values;

-- Not a counter: the next position is the last one + 1 under the partition's lock. A row that every append
-- updated would slow down more and more while an old snapshot is open anywhere.
create table navi.log_partition (
  partition smallint primary key,
  floor     bigint   not null default 0,  -- positions up to here are archived
  epoch     int      not null default 0   -- goes up when history was lost in a failover
);

-- Registry, insert-only: where a session's events are, whose it is, and what it was forked from.
create table navi.session (
  session_id  uuid        primary key,
  partition   smallint    not null,
  owner       text        not null,
  forked_from uuid        references navi.session,
  base_seq    bigint      not null default 0,  -- events up to here are the origin's
  base_hash   bytea       not null,            -- hash of the event at base_seq; 32 zero bytes for 0
  made_at     timestamptz not null default now()
);

create table navi.event (
  partition   smallint    not null,
  position    bigint      not null,
  session_id  uuid        not null,
  seq         bigint      not null,
  id          uuid        not null,
  type        text        collate "C" not null,
  v           smallint    not null,
  at          timestamptz not null,
  turn_id     uuid,
  subagent_id text        collate "C",
  data        json        not null,  -- the bytes as they were written; jsonb would change them
  salt        bytea,                 -- 16 random bytes; null once the event was erased
  digest      bytea       not null,  -- sha256(salt || data as it was written)
  hash        bytea       not null,  -- over the predecessor's hash, the header and the digest
  primary key (partition, position)
) partition by list (partition);

-- Long texts by content. bytea, since text cannot hold U+0000.
create table navi.text (
  sha256  bytea       primary key,
  content bytea       not null,
  made_at timestamptz not null default now()
);

create function navi.ensure_partition(p_partition smallint) returns void language plpgsql as $$
declare
  leaf constant text := format('event_p%s', p_partition);
begin
  if exists (select from navi.log_partition l where l.partition = p_partition) then
    return;
  end if;
  execute format('create table navi.%I partition of navi.event for values in (%s)', leaf, p_partition);
  execute format('create unique index on navi.%I (session_id, seq)', leaf);
  execute format(
    'create index on navi.%I (session_id, (data ->> ''message_id'')) where type = ''user_message_received''', leaf);
  insert into navi.log_partition (partition) values (p_partition);
end $$;
select navi.ensure_partition(0::smallint);

-- Appends slices (consecutive events of one session each, a session at most once) to one partition.
-- Gives for each slice the position of its first event, or null where the session has moved on: such a
-- slice is left out, the others are committed.
create function navi.append(
  p_partition smallint,
  s_session uuid[], s_owner text[], s_new boolean[], s_forked_from uuid[],
  s_expected bigint[], s_position bigint[], s_hash bytea[], s_count int[],
  e_id uuid[], e_type text[], e_at timestamptz[], e_turn_id uuid[], e_subagent_id text[], e_data json[],
  -- salt (16 bytes), digest (32), hash (32), v (2), nth within the slice (3), slice (2), big-endian: the
  -- driver looks at every element of every array, which costs more than taking these apart here.
  e_packed bytea[]
) returns bigint[]
language plpgsql volatile
-- Point lookups whatever the statistics say: a plan cached while a leaf was empty would scan it for ever.
set enable_seqscan = off set enable_bitmapscan = off
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
           and e.session_id = s.session_id and e.seq = s.expected + 1
         limit 1) next on true
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

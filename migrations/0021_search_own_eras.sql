-- A search for a name costs the same whatever the number of sessions, and any search whatever others have said. While
-- this is applied read models can be read and not written, as with 0017.
lock table navi.read_state in share row exclusive mode;

update navi.read_state s set place = navi.place_of(s.owner, numbered.nth)
  from (select version, session_id, row_number() over (order by last_active, session_id) as nth
          from navi.read_state where projection = 'sessions' and last_active is not null) numbered
 where s.projection = 'sessions' and (s.version, s.session_id) = (numbered.version, numbered.session_id);
select setval('navi.read_state_nth', count(*) + 1, false) from navi.read_state where place is not null;

-- An era of names: 512 sessions of all owners.
create function navi.era_of_name(place bigint) returns bigint language sql immutable parallel safe
return coalesce(place, 0) >> 9;

create function navi.words_of_name(place bigint, name text) returns tsvector
language plpgsql immutable parallel safe as $$
begin
  return regexp_replace(
    navi.words(name)::text, '(^| )''', '\1''' || navi.era_of_name(place)::text || ':', 'g')::tsvector;
exception
  when others then return null;
end $$;

-- The place of a session that is saved: as before while that is in the newest era, or nothing has happened there since,
-- else behind all others. So those that were active last are in the newest eras; one that is in no list needs no place.
create function navi.place_of_session(
  before bigint, active_before timestamptz, active timestamptz, owner text) returns bigint language sql volatile
return case
  when active is null or before is not null and active = active_before then before
  when before >= navi.place_of(owner, (select last_value from navi.read_state_nth) >> 9 << 9) then before
  else navi.place_of(owner, nextval('navi.read_state_nth')) end;

create index read_state_named on navi.read_state using gin (navi.words_of_name(place, name))
  with (fastupdate = off) where projection || '' = 'sessions' and last_active is not null;

-- A session leaves its place behind with each era in which it is active again, so there are ever more eras, of which the
-- older ones hold little. Behind the newest 64 all names of an owner are asked at once.
create function navi.words_of_owner(owner text, name text) returns tsvector language plpgsql immutable parallel safe as $$
begin
  return navi.words_of_name(navi.place_of(owner, 0), name);
end $$;

create index read_state_named_ever on navi.read_state using gin (navi.words_of_owner(owner, name))
  with (gin_pending_list_limit = 256) where projection || '' = 'sessions' and last_active is not null;

-- As before: of an owner's sessions whose name fits those that were active last first.
create or replace function navi.find_named(p_version integer, p_owner text, p_query tsquery, p_limit integer)
returns table (session_id uuid)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = on set enable_seqscan = off  -- an index on words is read in no other way
set plan_cache_mode = force_generic_plan  -- else it is planned for each look
set max_parallel_workers_per_gather = 0
as $$
declare
  sessions constant integer := (
    select number from navi.serving_build where projection = 'sessions' and version = p_version);
  own    constant bigint := navi.era_of_name(navi.place_of(p_owner, 0));
  last   constant bigint := (select navi.era_of_name(last_value) from navi.read_state_nth);
  newest bigint := last;  -- of those that are left; at -1 stand sessions that an older navi has saved
  eras   bigint := 1;
  wanted integer := p_limit;
  found  integer;
begin
  if querytree(p_query) in ('', 'T')
     or current_setting('role') = 'navi_reader' and p_owner is distinct from current_setting('navi.owner', true) then
    return;
  end if;
  while wanted > 0 and newest >= -1 and last - newest < 64 loop
    return query
      select h.session_id
        from generate_series(greatest(-1, newest - eras + 1), newest) as era
       cross join lateral (  -- "offset 0": one era after the other, along the index
         select s.session_id, s.last_active from navi.read_state s
          where navi.words_of_name(s.place, s.name)
                @@ navi.query_of_era(case when era < 0 then 0 else own + era end, p_query)
            and s.projection || '' = 'sessions' and s.last_active is not null
            and s.version + 0 = sessions and s.owner || '' = p_owner
         offset 0) h
       order by h.last_active desc limit wanted;
    get diagnostics found = row_count;
    wanted := wanted - found;
    newest := newest - eras;
    eras := last - newest;
  end loop;
  if wanted > 0 and newest >= -1 then  -- "offset 0": along the index, whatever else there is
    return query
      select h.session_id from (
        select s.session_id, s.last_active, s.place from navi.read_state s
         where navi.words_of_owner(s.owner, s.name) @@ navi.query_of_era(own, p_query)
           and s.projection || '' = 'sessions' and s.last_active is not null
           and s.version + 0 = sessions and s.owner || '' = p_owner
        offset 0) h
       where h.place is null or navi.era_of_name(h.place) <= own + newest
       order by h.last_active desc limit wanted;
  end if;
end $$;

-- As before, in the owner's eras, and behind them in everybody's.
create or replace function navi.find_said(p_version integer, p_owner text, p_query tsquery, p_limit integer)
returns table (session_id uuid, key bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = on set enable_seqscan = off  -- an index on words is read in no other way
set plan_cache_mode = force_generic_plan  -- else it is planned for each look
set enable_hashjoin = off set enable_mergejoin = off  -- whose a row is, is looked up until there are enough
set max_parallel_workers_per_gather = 0  -- to start one takes longer than to find a few rows
as $$
declare
  messages constant integer := (
    select number from navi.serving_build where projection = 'messages' and version = p_version);
  sessions constant integer := (
    select number from navi.serving_build where projection = 'sessions' order by version desc limit 1);
  own    constant bigint := navi.era_of(navi.place_of(p_owner, 0));
  before constant bigint := (select navi.era_of(last_value) + 1 from navi.read_row_place);  -- eras of everybody
  last   constant bigint := (select navi.era_of(last_value) + before from navi.read_row_nth);
  newest bigint := last;  -- of those that are left
  eras   bigint := 1;
  wanted integer := p_limit;
  found  integer;
begin
  if querytree(p_query) in ('', 'T')
     or current_setting('role') = 'navi_reader' and p_owner is distinct from current_setting('navi.owner', true) then
    return;
  end if;
  while wanted > 0 and newest >= 0 loop
    return query
      select h.session_id, h.key from (
        select found.*
          from generate_series(greatest(0, newest - eras + 1), newest) as era
         cross join lateral (  -- "offset 0": one era after the other, along the index
           select r.session_id, r.key, r.place, r.hidden_by from navi.read_row r
            where navi.words_of_era(r.place, r.row)
                  @@ navi.query_of_era(case when era < before then era else own + era - before end, p_query)
              and r.projection || '' = 'messages' and r.version + 0 = messages
           offset 0) found
         order by found.place desc offset 0) h
       where h.hidden_by is null
         and exists (
           select from navi.read_state s
            where s.projection = 'messages' and s.version = messages and s.session_id = h.session_id
              and s.owner = p_owner)
         and not exists (  -- those known to be deleted would only be in the way
           select from navi.read_state d
            where d.projection = 'sessions' and d.version = sessions and d.session_id = h.session_id
              and d.last_active is null)
       order by h.place desc limit wanted;
    get diagnostics found = row_count;
    wanted := wanted - found;
    newest := newest - eras;
    eras := last - newest;  -- as many as before: what is rare is found in a few looks, of what is not little is read
  end loop;
end $$;

-- A search reads as much in a long log as in a short one: of messages the newest that fit, and names by an index.

-- In which order rows were saved: of messages, about the order in which they were said. Rows of before stand in the
-- order of their sessions.
create sequence navi.read_row_place;
alter table navi.read_row add column place bigint;
drop index navi.read_row_said;
update navi.read_row r set place = numbered.place
  from (select version, session_id, key, row_number() over (order by session_id, key) as place
          from navi.read_row where projection = 'messages') numbered
 where r.projection = 'messages'
   and (r.version, r.session_id, r.key) = (numbered.version, numbered.session_id, numbered.key);
select setval('navi.read_row_place', count(*) + 1, false) from navi.read_row where projection = 'messages';
alter table navi.read_row alter column place set default nextval('navi.read_row_place');

-- An index on words gives all rows that fit, in no order. So what is indexed are the words of an era, 16,384 rows in
-- a row: one era after the other is asked, the newest first, until there are enough.
create function navi.era_of(place bigint) returns bigint language sql immutable parallel safe
return coalesce(place, 0) >> 14;

-- (It is not said to cost more than other functions: a planner counts that against the index, as if each row that it
-- gives were checked again.)
create function navi.words_of_era(place bigint, message json) returns tsvector
language plpgsql immutable parallel safe as $$
declare
  said  constant text := navi.said(message);
  words tsvector := navi.words(said);
begin
  if octet_length(said) > 2000 then  -- with its era a word has to fit into 2,046 bytes
    words := ts_delete(words, array(select lexeme from unnest(words) where octet_length(lexeme) > 2000));
  end if;
  return regexp_replace(words::text, '(^| )''', '\1''' || navi.era_of(place)::text || ':', 'g')::tsvector;
exception
  when others then return null;
end $$;

create function navi.query_of_era(era bigint, query tsquery) returns tsquery language sql immutable parallel safe
return regexp_replace(query::text, '''([^'']+)''', '''' || era::text || ':\1''', 'g')::tsquery;

-- What was added last stands in a list that every search reads: a short one. Its condition is one that no other index
-- has: where Postgres knows nothing of the table yet (restored, or built anew), it would take one of them for cheaper,
-- and read all messages once an era.
create index read_row_said on navi.read_row using gin (navi.words_of_era(place, row))
  with (gin_pending_list_limit = 256) where projection || '' = 'messages';
drop function navi.words_said(json);

-- As before, of the newest messages first: what is read is bounded by the eras that it takes to find enough.
create or replace function navi.find_said(p_version integer, p_owner text, p_query tsquery, p_limit integer)
returns table (session_id uuid, key bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = on set enable_seqscan = off  -- an index on words is read in no other way
set enable_hashjoin = off set enable_mergejoin = off  -- whose a row is, is looked up until there are enough
set max_parallel_workers_per_gather = 0  -- to start one takes longer than to find a few rows
as $$
declare
  messages constant integer := (
    select number from navi.serving_build where projection = 'messages' and version = p_version);
  sessions constant integer := (
    select number from navi.serving_build where projection = 'sessions' order by version desc limit 1);
  last   constant bigint := (select navi.era_of(last_value) from navi.read_row_place);
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
        select r.session_id, r.key, r.place, r.hidden_by
          from generate_series(greatest(0, newest - eras + 1), newest) as era
          join navi.read_row r on navi.words_of_era(r.place, r.row) @@ navi.query_of_era(era, p_query)
         where r.projection || '' = 'messages' and r.version + 0 = messages
         order by r.place desc offset 0) h
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

-- The names of sessions, which a search would otherwise take out of the states of all.
create function navi.name_in(state json) returns text language plpgsql immutable parallel safe as $$
begin
  return navi.readable(state) ->> 'name';
exception
  when others then return null;
end $$;

alter table navi.read_state add column name text
  generated always as (case when projection = 'sessions' then navi.name_in(state) end) stored;
create index read_state_named on navi.read_state using gin (navi.words(name))
  with (gin_pending_list_limit = 256) where projection = 'sessions' and last_active is not null;

-- The owner's sessions whose name fits, those that were active last first. With the rights of the tables' owner, and
-- ids alone, as find_said.
create function navi.find_named(p_version integer, p_owner text, p_query tsquery, p_limit integer)
returns table (session_id uuid)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = on
set max_parallel_workers_per_gather = 0
as $$
  select s.session_id from navi.read_state s
   where s.projection = 'sessions' and s.version = (
     select number from navi.serving_build where projection = 'sessions' and version = p_version)
     and s.owner = p_owner and s.last_active is not null and navi.words(s.name) @@ p_query
     and querytree(p_query) not in ('', 'T')
     and (current_setting('role') <> 'navi_reader' or s.owner = current_setting('navi.owner', true))
   order by s.last_active desc limit p_limit
$$;

-- A search reads as much in a long log as in a short one: of messages the newest that fit. While this is applied read
-- models can be read and not written; whoever folds would else hold rows that wait for this, and be waited for.
lock table navi.read_row in share row exclusive mode;

-- Rows of before stand in the order of their sessions.
update navi.read_row r set place = numbered.place
  from (select version, session_id, key, row_number() over (order by session_id, key) as place
          from navi.read_row where projection = 'messages' and place is null) numbered
 where r.projection = 'messages'
   and (r.version, r.session_id, r.key) = (numbered.version, numbered.session_id, numbered.key);

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

-- What was added last is put into it at once: a list of it beside the index would be read for each era that is asked,
-- which took ten times as long as the era; of an era that is being filled all pages are at hand. Its condition is one
-- that no other index has: where Postgres knows nothing of the table yet (restored, or built anew), it would take one
-- of them for cheaper, and read all messages once an era.
create index read_row_said on navi.read_row using gin (navi.words_of_era(place, row))
  with (fastupdate = off) where projection || '' = 'messages';
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

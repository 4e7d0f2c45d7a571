-- Full text over what was said: the rows of the projection "messages", and the names of sessions. "simple" has no
-- language: the embedded Postgres has no other dictionaries, and users mix languages.

-- JSON that Postgres can take texts out of: its own cannot hold U+0000.
create function navi.readable(value json) returns json language sql immutable parallel safe
return replace(value::text, '\u0000', '\ufffd')::json;

-- Words are letters and digits: without what stands between them Postgres would take addresses, paths and numbers
-- for words of their own, which are not found by a part. Never an error: a text that cannot be searched must not stop
-- a projection.
-- They read the whole row: a plan that calls them for each is never the better one.
create function navi.words(said text) returns tsvector language plpgsql immutable parallel safe cost 10000 as $$
begin
  return to_tsvector('pg_catalog.simple', translate(said, '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)));
exception
  when others then return null;
end $$;

-- What a person or the agent said with a message, up to 100,000 characters; null of all other rows.
create function navi.said(message json) returns text language plpgsql immutable parallel safe cost 10000 as $$
declare
  readable constant json := navi.readable(message);
begin
  if readable ->> 'role' not in ('user', 'assistant')
     or readable ->> 'is_compression' = 'true' or readable ->> 'is_subagent' = 'true' then
    return null;
  end if;
  return left(concat_ws(E'\n', nullif(readable ->> 'content', ''), (
    select string_agg(taken_in.value ->> 'content', E'\n' order by taken_in.ordinality)
      from json_array_elements(readable -> 'taken_in') with ordinality as taken_in)), 100000);
exception
  when others then return null;
end $$;

create function navi.words_said(message json) returns tsvector language sql immutable parallel safe
return navi.words(navi.said(message));

create index read_row_said on navi.read_row using gin (navi.words_said(row)) where projection = 'messages';

-- The places of an owner's messages that fit, of the newest sessions first. With the rights of the tables' owner:
-- under row-level security Postgres uses no index for a search. So it gives places only, its own condition says whose,
-- and what stands there is read under row-level security again.
create function navi.find_said(p_version integer, p_owner text, p_query tsquery, p_limit integer)
returns table (session_id uuid, key bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = on  -- an index on words is read in no other way
as $$
  with hit as materialized (
    select r.session_id, r.key, r.version from navi.read_row r
     where r.projection = 'messages' and r.hidden_by is null and navi.words_said(r.row) @@ p_query
       and r.version = (select number from navi.serving_build
                         where projection = 'messages' and version = p_version)
  )
  select h.session_id, h.key from hit h
    join navi.read_state s on s.projection = 'messages' and s.version = h.version and s.session_id = h.session_id
   where s.owner = p_owner and querytree(p_query) not in ('', 'T')
     and (current_setting('role') <> 'navi_reader' or s.owner = current_setting('navi.owner', true))
     and h.session_id not in (  -- those known to be deleted would only be in the way
       select d.session_id from navi.read_state d
        where d.projection = 'sessions' and d.last_active is null
          and d.version = (select number from navi.serving_build
                            where projection = 'sessions' order by version desc limit 1))
   order by h.session_id desc, h.key desc limit p_limit
$$;

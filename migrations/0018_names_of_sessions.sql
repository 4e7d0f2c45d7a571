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

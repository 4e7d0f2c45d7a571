-- What 0022 is for. While this is applied read models can be read and not written, as with 0017.
lock table navi.read_state in share row exclusive mode;

-- Never an error: of a state that Postgres cannot take apart the session stays unfinished, which finds it, too.
create function navi.only_owes(state json) returns boolean language plpgsql immutable parallel safe as $$
declare
  there json;
begin
  there := navi.readable(state);
  return there ->> 'turn' is null and there ->> 'waiting' = '[]' and there ->> 'asides' = '[]';
exception
  when others then return false;
end $$;

update navi.read_state s set unfinished = false, owing = true
  from (select projection, version, session_id, state
          from navi.read_state where projection = 'sessions' and unfinished offset 0) there
 where (s.projection, s.version, s.session_id) = (there.projection, there.version, there.session_id)
   and navi.only_owes(there.state);
drop function navi.only_owes(json);

create index read_state_owing on navi.read_state (projection, version, session_id) where owing;

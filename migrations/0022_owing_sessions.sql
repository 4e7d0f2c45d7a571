-- Sessions of which only what follows a turn is left, apart from those with a turn, a message or a call: these are
-- looked at every two seconds, those a part at a time. A navi of before does not tell them apart and leaves the column
-- as it is: its rows are unfinished, which finds them all the same.
alter table navi.read_state add column owing boolean;

create index read_state_owing on navi.read_state (projection, version, session_id) where owing;

update navi.read_state s set unfinished = false, owing = true
  from (select projection, version, session_id, navi.readable(state) as state
          from navi.read_state where projection = 'sessions' and unfinished offset 0) there
 where (s.projection, s.version, s.session_id) = (there.projection, there.version, there.session_id)
   and there.state ->> 'turn' is null
   and there.state ->> 'waiting' = '[]' and there.state ->> 'asides' = '[]';

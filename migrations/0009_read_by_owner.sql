-- Row-level security, the second line behind the statements' own conditions: whoever reads for a person does so
-- as the role navi_reader, with their id in the setting navi.owner, and sees what is theirs; without it, nothing.
-- All others (the owner of the tables, superusers, who is let in beside them) see and change what they did before.

alter table navi.session enable row level security;
create policy of_owner on navi.session using (
  (select current_user <> 'navi_reader')
  or owner = (select nullif(current_setting('navi.owner', true), '')));

alter table navi.event enable row level security;
create policy of_owner on navi.event using (
  (select current_user <> 'navi_reader')
  or exists (select from navi.session s where s.session_id = event.session_id));

alter table navi.read_state enable row level security;
create policy of_owner on navi.read_state using (
  (select current_user <> 'navi_reader')
  or owner = (select nullif(current_setting('navi.owner', true), '')));

alter table navi.read_row enable row level security;
create policy of_owner on navi.read_row using (
  (select current_user <> 'navi_reader')
  or exists (select from navi.session s where s.session_id = read_row.session_id));

alter table navi.memory enable row level security;
create policy of_owner on navi.memory using (
  (select current_user <> 'navi_reader')
  or owner = (select nullif(current_setting('navi.owner', true), '')));

alter table navi.memory_embedding enable row level security;
create policy of_owner on navi.memory_embedding using (
  (select current_user <> 'navi_reader')
  or owner = (select nullif(current_setting('navi.owner', true), '')));

-- Makes the role where it is missing, and gives it what it may read; false where this user may not do that.
-- Asked at every start, and not once here: the role is the cluster's, not the database's, and may come later.
create function navi.open_reader() returns boolean language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock(7011, 0);
  begin
    if not exists (select from pg_roles where rolname = 'navi_reader') then
      create role navi_reader nologin;
    end if;
  exception
    when duplicate_object or unique_violation then null;  -- made by another database's navi just now
  end;
  if exists (select from pg_roles where rolname = 'navi_reader' and (rolsuper or rolbypassrls)) then
    return false;
  end if;
  if not pg_has_role('navi_reader', case when current_setting('server_version_num')::int >= 160000
                                    then 'set' else 'member' end) then
    grant navi_reader to current_user;
  end if;
  grant usage on schema navi to navi_reader;
  grant select on navi.session, navi.event, navi.log_partition, navi.read_state, navi.read_row,
    navi.build, navi.serving_build, navi.checkpoint, navi.memory, navi.memory_embedding to navi_reader;
  return true;
exception
  when insufficient_privilege then return false;
end $$;

-- Read models: caches of the log, safe to throw away; and the processes that make up the service.

-- How far a projection is in a partition of the log. The row is its lock, too: one process at a time.
create table navi.checkpoint (
  projection text     not null,
  version    integer  not null,
  partition  smallint not null,
  position   bigint   not null default 0,
  primary key (projection, version, partition)
) with (fillfactor = 50);  -- rewritten with every batch: leave room for that on the page

-- Sessions that a projection cannot fold: their events from seq on are left out until it is built anew.
create table navi.parked (
  projection text        not null,
  version    integer     not null,
  session_id uuid        not null,
  seq        bigint      not null,
  error      text        not null,
  at         timestamptz not null default now(),
  primary key (projection, version, session_id)
);

-- A projection's small state of a session; everything up to seq is folded in.
create table navi.read_state (
  projection  text    not null,
  version     integer not null,
  session_id  uuid    not null,
  owner       text    not null,
  seq         bigint  not null,
  state       json    not null,
  -- where the session stands in lists; all three or none
  pinned      boolean,
  last_active timestamptz,
  unfinished  boolean,
  primary key (projection, version, session_id),
  check (num_nulls(pinned, last_active, unfinished) in (0, 3))
) with (fillfactor = 80);

create index read_state_listed
  on navi.read_state (projection, version, owner, pinned, last_active, session_id)
  where last_active is not null;

create index read_state_unfinished
  on navi.read_state (projection, version, session_id)
  where unfinished;

-- Rows of a session in order of key; hidden_by is the event on whose behalf a row is out of sight.
create table navi.read_row (
  projection text    not null,
  version    integer not null,
  session_id uuid    not null,
  key        bigint  not null,
  hidden_by  bigint,
  row        json    not null,
  primary key (projection, version, session_id, key)
) with (fillfactor = 90);

-- What a compressed session shows is a few rows behind many hidden ones.
create index read_row_visible
  on navi.read_row (projection, version, session_id, key)
  where hidden_by is null;

-- Processes of the service. A node is alive while its lease runs and it holds the advisory lock
-- (7002, number); left_at says that it went in good order.
create table navi.node (
  id         uuid        primary key,
  number     integer     not null generated always as identity,
  joined_at  timestamptz not null default now(),
  expires_at timestamptz not null,
  left_at    timestamptz
) with (fillfactor = 50);

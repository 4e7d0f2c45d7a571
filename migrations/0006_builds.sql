-- Read models are built anew beside the ones that serve, and switched in one transaction; and it is single
-- events that a projection leaves out, not sessions.

-- Builds of read models. The column "version" of checkpoint, read_state and read_row is a build's number:
-- the first build of a version has the version's own. Of a version at most one serves ("live"), and one is
-- under way; that one serves as far as it is where none is live. What is retired is deleted bit by bit.
create table navi.build (
  projection text        not null,
  number     integer     not null,
  version    integer     not null,
  state      text        not null default 'building' check (state in ('building', 'live', 'retired')),
  used_at    timestamptz not null default now(),  -- when a process of this version was last seen at work
  primary key (projection, number)
);

create unique index build_live on navi.build (projection, version) where state = 'live';
create unique index build_under_way on navi.build (projection, version) where state = 'building';

-- The build that serves a version.
create view navi.serving_build as
  select distinct on (projection, version) projection, version, number from navi.build
  where state in ('live', 'building')
  order by projection, version, state = 'live' desc;

create sequence navi.build_number as integer start with 1000001;  -- beyond all versions

-- Events that a projection could not fold; the build went on without them.
create table navi.parked_event (
  projection text        not null,
  build      integer     not null,
  session_id uuid        not null,
  seq        bigint      not null,
  type       text        not null,
  error      text        not null,
  at         timestamptz not null default now(),
  primary key (projection, build, session_id, seq)
);

-- A projection that left out whole sessions has a gap there: it begins again. navi.parked stays for the
-- processes of the version before, and is not read any more.
delete from navi.read_state s using navi.parked p where (s.projection, s.version) = (p.projection, p.version);
delete from navi.read_row r using navi.parked p where (r.projection, r.version) = (p.projection, p.version);
delete from navi.checkpoint c using navi.parked p where (c.projection, c.version) = (p.projection, p.version);
delete from navi.parked;

insert into navi.build (projection, number, version, state)
select distinct projection, version, version, 'live' from navi.checkpoint where projection <> 'memories';

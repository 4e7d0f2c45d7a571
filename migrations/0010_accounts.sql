-- Who may sign in, and with what. Of secrets only hashes are kept: argon2id of passwords, sha256 of random ones.
create table navi.account (
  id         text        primary key,
  name       text        not null,
  name_key   text        not null unique,
  role       text        not null check (role in ('admin', 'user')),
  disabled   boolean     not null default false,
  limits     json        not null default '{}',
  password   text,
  created_at timestamptz not null
);

create table navi.credential (
  id            uuid        primary key,
  account_id    text        not null references navi.account on delete cascade,
  kind          text        not null check (kind in ('login', 'token')),
  secret_sha256 bytea       not null,
  name          text        not null,
  scopes        text[]      not null,
  created_at    timestamptz not null,
  expires_at    timestamptz,
  used_at       timestamptz
);
create index credential_account on navi.credential (account_id);

-- Of links that set navi up; void once there is a user.
create table navi.setup_token (
  sha256  bytea       primary key,
  made_at timestamptz not null default now()
);

-- Wrong passwords of the last minutes, by address, for all nodes.
create table navi.login_failure (
  address     text        not null,
  name_sha256 bytea       not null,
  at          timestamptz not null
);
create index login_failure_address on navi.login_failure (address, at);

-- Logins to NATS that read one user's events: of a key only the public part is kept.

alter table navi.credential drop constraint credential_kind_check;
alter table navi.credential
  add constraint credential_kind_check check (kind in ('login', 'token', 'nats'));
alter table navi.credential add column nkey text unique;
alter table navi.credential
  add constraint credential_nkey_check check ((nkey is not null) = (kind = 'nats'));

-- What an erasure looks for, without reading the whole log: the forks of a session, the sessions of an owner,
-- and the model calls that refer to a kept text.
create index session_forked_from on navi.session (forked_from) where forked_from is not null;
create index session_owner on navi.session (owner);
create index event_model_called on navi.event (session_id) where type = 'model_called';

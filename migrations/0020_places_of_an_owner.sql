-- A search asks its owner's rows alone, and of names, too, the newest first: whose a row is stands in its place, as a
-- number before the number that it was saved as. Apart from what fills it, since this keeps even readers waiting.
create sequence navi.read_row_nth;
create sequence navi.read_state_nth;

-- (Owners that have a number in common read each other's places, and are told apart by whose the session is.
-- Places of before 0020, and those that older navis save, have none: they are in everybody's eras.)
create function navi.place_of(owner text, nth bigint) returns bigint language sql immutable parallel safe
return (((hashtextextended(owner, 0) & 65535) + 1) << 40) + nth;

alter table navi.read_state add column place bigint;
drop index navi.read_state_named;  -- 0021 makes another one

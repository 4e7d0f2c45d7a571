-- In which order rows were saved: of messages, about the order in which they were said. Apart from what fills it, since
-- this keeps even readers waiting, for as long as it takes to count messages.
create sequence navi.read_row_place;
alter table navi.read_row add column place bigint;
alter table navi.read_row alter column place set default nextval('navi.read_row_place');
select setval('navi.read_row_place', count(*) + 1, false) from navi.read_row where projection = 'messages';
drop index navi.read_row_said;  -- 0017 makes another one: every row would have to be put into this one once more

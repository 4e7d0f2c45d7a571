-- What was added last is put into the index at once: a list of it beside the index would be read for each era that is
-- asked, which took ten times as long as the era. Of an era that is being filled all pages are at hand.
alter index navi.read_row_said set (fastupdate = off);
select gin_clean_pending_list('navi.read_row_said');

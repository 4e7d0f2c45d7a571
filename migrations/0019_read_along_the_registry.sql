-- Whose a row is, row-level security asks the registry for each row, along its key. As "exists" the planner may answer
-- it for all rows at once: it then reads the whole registry for each statement, which in a log of twenty thousand
-- sessions takes longer than all else that is done to open one.

alter policy of_owner on navi.event using (
  (select current_user <> 'navi_reader')
  or (select true from navi.session s where s.session_id = event.session_id));

alter policy of_owner on navi.read_row using (
  (select current_user <> 'navi_reader')
  or (select true from navi.session s where s.session_id = read_row.session_id));

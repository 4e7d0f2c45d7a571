-- Sessions of which only what follows a turn is left, apart from those with a turn, a message or a call: these are
-- looked at every two seconds, those a part at a time. A navi of before does not tell them apart and leaves the column
-- as it is: its rows are unfinished, which finds them all the same. Apart from what fills it, since this keeps even
-- readers waiting.
alter table navi.read_state add column owing boolean;

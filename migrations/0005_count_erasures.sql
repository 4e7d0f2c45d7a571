-- How often something was erased in a partition: every node sees it with its next look at the log, and forgets
-- the rows that it keeps in memory.
alter table navi.log_partition add column erasures bigint not null default 0;

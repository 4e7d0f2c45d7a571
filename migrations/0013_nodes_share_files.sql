-- Whether a node has left a file of its id in the files directory, which all nodes share: one that starts
-- looks for those of the others, and goes no further where it does not see them.

alter table navi.node add column marks_files boolean not null default false;

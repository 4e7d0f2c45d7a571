-- In which sessions a conversation that another program has kept goes on: found by the marks they have come by.
create index read_row_conversation on navi.read_row ((row ->> 'mark')) where projection = 'conversation';

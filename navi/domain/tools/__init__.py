"""Rules of tools: schemas as they are sent and checked, calls as models write them, output, addresses."""

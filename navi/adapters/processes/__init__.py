"""Several nodes as child processes of one ``navi serve``: started, watched, started again, replaced."""

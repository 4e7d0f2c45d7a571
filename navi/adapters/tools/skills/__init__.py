"""Skills: folders with a ``SKILL.md`` that tell the agent how to do a task well."""

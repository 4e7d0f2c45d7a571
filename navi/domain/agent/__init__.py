"""Who the agent is, and what keeps it on its way: profile, policy, guidance, plan, name."""

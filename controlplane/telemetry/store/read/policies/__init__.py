"""Questions of policies: the two pools of a canary, and where requests go under rules."""

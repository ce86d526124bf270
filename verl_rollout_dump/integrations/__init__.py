"""The trainers that rollouts come from. Only these modules know a trainer's own structures."""

"""verl: where its trainers are entered, and how their batches are read."""

"""What decisions cost: latency, throughput, tokens, money and agreement of students, cascades and served models."""

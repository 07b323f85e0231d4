"""Systems side by side: who is better, by how much, why, and how sure that is."""

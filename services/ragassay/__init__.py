"""ragassay judges RAG systems and says how far its own numbers can be trusted."""

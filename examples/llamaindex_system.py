"""A query engine of LlamaIndex as a system under test. Put your own engine in: pip install llama-index-core."""

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

import ragassay


def system(engine):
    """A function of a query that asks the engine and says what it found and answered."""

    def ask(query):
        response = engine.query(query)
        return {
            "answer": str(response),
            "contexts": [node.get_content() for node in response.source_nodes],
            "retrieved_doc_ids": [node.node_id for node in response.source_nodes],
            "retrieved_scores": [node.score for node in response.source_nodes],
        }

    return ask


def mock_engine(texts):
    """An engine over texts by id, whose model repeats its prompt and whose vectors are all the same; in place of yours."""
    nodes = [TextNode(id_=name, text=text) for name, text in texts.items()]
    index = VectorStoreIndex(nodes=nodes, embed_model=MockEmbedding(embed_dim=8))
    return index.as_query_engine(llm=MockLLM(), similarity_top_k=2)


if __name__ == "__main__":
    texts = {"start": "Backups start at 02:00 UTC.", "kept": "Daily backups are kept for 30 days."}
    questions = [{"question": "When do backups start?", "ground_truth": "At 02:00 UTC.", "relevant_docs": ["start"]}]
    engine = system(mock_engine(texts))
    print(ragassay.evaluate(questions, systems={"engine": engine}, metrics=["completeness", "recall@2"]))

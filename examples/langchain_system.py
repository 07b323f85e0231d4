"""A chain of LangChain as a system under test. Put your own retriever and model in: pip install langchain-core."""

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

import ragassay

PROMPT = ChatPromptTemplate.from_template("Answer from these documents:\n{context}\n\nQuestion: {question}")


def system(retriever, model):
    """A function of a query that runs the chain and says what it found, answered and used."""
    chain = (
        {"documents": retriever, "question": RunnablePassthrough()}
        | RunnablePassthrough.assign(context=lambda found: "\n".join(each.page_content for each in found["documents"]))
        | RunnablePassthrough.assign(message=PROMPT | model)
    )

    def ask(query):
        found = chain.invoke(query)
        message, usage = found["message"], found["message"].usage_metadata or {}
        return {
            "answer": message.text,
            "contexts": [document.page_content for document in found["documents"]],
            "retrieved_doc_ids": [document.id for document in found["documents"]],
            "model": message.response_metadata.get("model_name"),
            "input_tokens": usage.get("input_tokens"),
            "output_tokens": usage.get("output_tokens"),
        }

    return ask


class Words(BaseRetriever):
    """The documents with the most words of the query; in place of your vector store."""

    documents: list[Document]

    def _get_relevant_documents(self, query, *, run_manager):
        words = set(query.lower().rstrip("?").split())
        return sorted(self.documents, key=lambda each: -len(words & set(each.page_content.lower().split())))[:2]


class FirstDocument(BaseChatModel):
    """Answers with the first document of its prompt; in place of your model."""

    _llm_type = "first-document"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        prompt = messages[-1].text
        answer = prompt.splitlines()[1]
        usage = {"input_tokens": len(prompt.split()), "output_tokens": len(answer.split()), "total_tokens": 0}
        message = AIMessage(answer, usage_metadata=usage, response_metadata={"model_name": "first-document"})
        return ChatResult(generations=[ChatGeneration(message=message)])


if __name__ == "__main__":
    texts = {
        "kept": "Daily backups are kept for 30 days.",
        "start": "Backups start at 02:00 UTC.",
        "key": "Keys expire.",
    }
    documents = [Document(id=name, page_content=text) for name, text in texts.items()]
    questions = [
        {"question": "When do backups start?", "ground_truth": "At 02:00 UTC.", "relevant_docs": ["start"]},
        {"question": "How long are daily backups kept?", "ground_truth": "For 30 days.", "relevant_docs": ["kept"]},
    ]
    chain = system(Words(documents=documents), FirstDocument())
    print(ragassay.evaluate(questions, systems={"chain": chain}, metrics=["correctness", "recall@2", "output_tokens"]))

"""A judge of support by a cross-encoder for natural language inference: no key, nothing leaves your machine.

    pip install 'ragassay[models]'
    ragassay evaluate rows.jsonl --import examples/cross_encoder_judge.py --judge nli

NLI_MODEL names another model: a folder, or a name on the Hugging Face hub. Truth, relevance and refusals are the local judge's.
"""

import os

from sentence_transformers import CrossEncoder

from ragassay import LocalJudge, judge

MODEL = os.environ.get("NLI_MODEL", "cross-encoder/nli-deberta-v3-base")


@judge(name="nli")
class NliJudge:
    """Support by entailment; the rest is the local judge's."""

    def __init__(self):
        self.settings = {"model": MODEL}
        self.model = CrossEncoder(MODEL)
        labels = {name.lower(): place for place, name in self.model.config.id2label.items()}
        self.supports, self.contradicts = labels["entailment"], labels["contradiction"]

    async def judge(self, samples, journal):
        """A rating for each sample."""
        ratings = await LocalJudge().judge(samples, journal)
        return [self.with_support(sample, rating) for sample, rating in zip(samples, ratings, strict=True)]

    def with_support(self, sample, rating):
        """The local judge's rating with the support of the model."""
        if not (rating.verdict and sample.contexts):
            return rating
        sentences = [self.sentence(one, sample.contexts) for one in rating.verdict.sentences]
        verdict = rating.verdict.model_copy(update={"sentences": tuple(sentences)})
        return rating.model_copy(update={"verdict": verdict})

    def sentence(self, one, contexts):
        """The sentence with the support of the context that entails it most, or contradicts it."""
        chances = self.model.predict([(context, one.text) for context in contexts], apply_softmax=True)
        for place, support in ((self.supports, "supported"), (self.contradicts, "contradicted")):
            context = chances[:, place].argmax()
            if chances[context, place] >= 0.5:
                return one.model_copy(update={"support": support, "evidence": (f"C{context + 1}.1",), "why": ""})
        return one.model_copy(update={"support": "not_found", "evidence": (), "why": "no context entails it"})

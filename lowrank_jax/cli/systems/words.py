"""Words with one output per letter: what ``train smm`` does with them."""

from typing import TYPE_CHECKING, Any

from lowrank_jax.checks import InputError
from lowrank_jax.cli import files
from lowrank_jax.cli.fitting import Run
from lowrank_jax.cli.systems.sentences import Sentences

if TYPE_CHECKING:
    from lowrank_jax.data.corpus import Corpus

__all__ = ["Words"]
__dir__ = __all__.copy


class Words(Sentences):
    """Trains a speller; see `cli.fitting.System`."""

    kind = "word tagger"

    def names(self) -> tuple[str, str | None]:
        """Return the names of the data; refuse what has no meaning for bi-symbols."""
        arguments, name = self.arguments, self.arguments.learner
        if arguments.format != "nettalk":
            raise InputError(
                f"{name} learns words as pairs of a letter and a label, so --format "
                f"must be nettalk, got {arguments.format}."
            )
        features, rounds = "features", "the regret of rounds"
        for option, is_given, about in (
            ("--template", arguments.template is not None, features),
            ("--orders", arguments.orders is not None, features),
            ("--min-count", arguments.min_count != 1, features),
            ("--labels", arguments.labels is not None, "chunks"),
            ("--legal-only", arguments.legal_only, "chunks"),
            ("--batch-size", arguments.batch_size != 1, "rounds"),
            ("--devices", arguments.devices != 1, "rounds"),
            ("--unknown-label", arguments.unknown_label != "?", "latent labels"),
            ("--certify", arguments.certify is not None, rounds),
            ("--certify-every", arguments.certify_every is not None, rounds),
        ):
            if is_given:
                raise InputError(
                    f"{option} is about {about}, which {name} does not have; leave it "
                    f"out."
                )
        return super().names()

    def _with_unknown(self, path: str) -> "Corpus":
        """Read a file; every label is known."""
        return files.read_corpus(path, self.arguments)

    def prepare(self) -> None:
        """Check the settings, before anything is read."""
        from lowrank_jax.estimators.speller import Speller

        arguments = self.arguments
        self.estimator = Speller(
            arguments.learner, arguments.passes, arguments.seed, **self._given()
        )
        self.estimator.check()

    def read(self, train_path: str, test_path: str | None) -> None:
        """Read the data."""
        for _ in self._read(train_path, test_path):
            pass

    def fit(self, run: Run) -> dict[str, Any]:
        """Train the speller."""
        self.estimator.fit(self.train, run=run)
        return self._summary(run)

    def save(self, result: dict[str, Any]) -> None:
        """Write the model folder."""
        keep = self.arguments.keep_checkpoint
        self.estimator.save(self.arguments.model, keep_checkpoint=keep)

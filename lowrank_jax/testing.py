"""Checks for a learner of your own: the contract that every learner here keeps.

`check_learner` takes a module with `State`, `Info`, `learner` and `final_params`
through the checks of `CHECKS`. `assert_no_copies` compiles a pass and looks for copies
of large tables. Both raise `AssertionError` with a sentence that says what is wrong.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from lowrank_jax import checks, loops, streams
from lowrank_jax.data.sequences import Space
from lowrank_jax.types import Learner, Stream

__all__ = ["CHECKS", "PLATFORMS", "assert_no_copies", "check_learner", "sentences"]
__dir__ = __all__.copy

PLATFORMS = ("cpu", "cuda", "tpu")
_NAMES = ("State", "Info", "learner", "final_params")


class _Case:
    """One learner, with its settings and examples."""

    def __init__(
        self, module: Any, examples: Any, hyperparameter: str, settings: Mapping
    ) -> None:
        self.module, self.hyperparameter = module, hyperparameter
        self.settings, self.given = dict(settings), examples

    def build(self, dtype: Any, **changes: Any) -> Learner:
        settings = self.settings | changes
        if "dtype" in inspect.signature(self.module.learner).parameters:
            settings = settings | {"dtype": dtype}
        return self.module.learner(**settings)

    def examples(self, dtype: Any) -> Any:
        def cast(leaf: Any) -> jax.Array:
            is_real = jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
            return jnp.asarray(leaf, dtype if is_real else None)

        if callable(self.given):
            return self.given(dtype)
        examples = jax.tree.map(cast, self.given)
        sizes = {leaf.shape[:1] for leaf in jax.tree.leaves(examples)}
        if len(sizes) != 1 or sizes == {()}:
            raise checks.InputError(
                "`examples` must be stacked along the first axis of each leaf, as "
                "jax.vmap(stream.example)(jnp.arange(4)) gives them; the leaves have "
                f"{sorted(sizes)} as their first axes."
            )
        return examples

    def start(self, dtype: Any) -> tuple[Learner, Any, Any, Any]:
        learner = self.build(dtype)
        examples = jax.device_get(self.examples(dtype))
        first = _at(examples, 0)
        return learner, jax.jit(learner.init)(jax.random.key(0), first), examples, first

    def update(self, value: jax.Array, state: Any, example: Any) -> Any:
        """Run a round in double precision with a value of the hyper-parameter."""
        learner = self.build(jnp.float64, **{self.hyperparameter: value})
        return learner.update(state, example)


def check_learner(
    module: Any,
    examples: Any,
    *,
    hyperparameter: str,
    settings: Mapping[str, Any] | None = None,
    only: tuple[str, ...] = tuple("names rounds jit vmap platforms".split()),
) -> None:
    """Raise `AssertionError` unless a learner keeps the contract.

    ===============  ==============================================================
    ``"names"``      the four names are in `__all__`, the arguments keyword-only
    ``"rounds"``     with x64 off, rounds are traced once, keep types and shapes,
                     repeat bit for bit, and the loss changes and stays finite
    ``"jit"``        in double precision, jit equals no jit
    ``"vmap"``       `vmap` over the hyper-parameter equals single runs
    ``"platforms"``  both functions lower for CPU, CUDA and TPU
    ===============  ==============================================================

    Args:
      module: Module with `State`, `Info`, `learner` and `final_params`.
      examples: Some examples, stacked along the first axis of each leaf. Reals are cast
        to the type of each check. Or a function from a dtype to such examples.
      hyperparameter: Name of a real argument of `learner` that may be traced. The
        checks set it to 0.5 and to 2.
      settings: Other arguments of `learner`.
      only: Names of the checks to run.
    """
    case = _Case(module, examples, hyperparameter, settings or {})
    for name in only:
        checks.choice(tuple(CHECKS), only=name)
        CHECKS[name](case)


def _names(case: _Case) -> None:
    module = case.module
    missing = [n for n in _NAMES if n not in getattr(module, "__all__", ())]
    _hold(not missing, f"`__all__` must hold {', '.join(missing)}")
    parameters = inspect.signature(module.learner).parameters
    loose = [n for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
    _hold(not loose, f"arguments of `learner` must be keyword-only: {loose}")
    name = case.hyperparameter
    _hold(name in parameters, f"`learner` has no argument {name!r}")


def _kept(case: _Case, dtype: str, state: Any, new_state: Any, info: Any) -> None:
    """Check that types and structure stay as at the start, and `Info` scalars."""
    chex.assert_trees_all_equal_shapes_and_dtypes(state, new_state)
    _hold(isinstance(new_state, case.module.State), "`update` must return a `State`")
    _hold(isinstance(info, case.module.Info), "`update` must return an `Info`")
    for path, leaf in jax.tree_util.tree_leaves_with_path((new_state, info)):
        where = jax.tree_util.keystr(path)
        is_real = jnp.issubdtype(leaf.dtype, jnp.floating)
        _hold(
            not is_real or leaf.dtype == dtype, f"{where} is {leaf.dtype}, not {dtype}"
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(info):
        where = jax.tree_util.keystr(path)
        _hold(jnp.shape(leaf) == (), f"Info{where} must be a scalar, is {leaf.shape}")


def _rounds(case: _Case) -> None:
    with jax.enable_x64(False):
        learner, first_state, examples, _ = case.start(jnp.float32)
        chex.clear_trace_counter()
        update = jax.jit(chex.assert_max_traces(learner.update, n=1))
        num_rounds = jax.tree.leaves(examples)[0].shape[0]

        def run() -> tuple[Any, list[Any]]:
            state, infos = first_state, []
            for i in range(num_rounds):
                state, info = update(state, _at(examples, i))
                infos.append(info)
            return state, infos

        state, infos = run()
        _kept(case, "float32", first_state, state, infos[0])
        chex.assert_trees_all_equal((state, infos), run())
        if hasattr(infos[0], "converged"):  # `loops.passes` asks for it
            _hold(infos[0].converged.dtype == bool, "`Info.converged` must be boolean")
        field = "objective" if hasattr(infos[0], "objective") else "loss"
        numbers = [float(getattr(info, field)) for info in infos]
        _hold(np.isfinite(numbers).all(), f"`Info.{field}` is not finite: {numbers}")
        _hold(len(set(numbers)) > 1, f"`Info.{field}` never changes: nothing is learnt")
        if hasattr(state, "num_rounds"):
            count = int(state.num_rounds)
            _hold(
                count == num_rounds,
                f"`State.num_rounds` is {count} after {num_rounds} rounds",
            )


def _jit(case: _Case) -> None:
    with jax.enable_x64(True):
        _, state, _, first = case.start(jnp.float64)
        value = jnp.array(0.5, jnp.float64)
        compiled = jax.jit(case.update)(value, state, first)
        _kept(case, "float64", state, *compiled)
        with jax.disable_jit():
            plain = case.update(value, state, first)
        chex.assert_trees_all_close(compiled, plain, rtol=1e-10, atol=1e-12)


def _vmap(case: _Case) -> None:
    with jax.enable_x64(True):
        _, state, examples, _ = case.start(jnp.float64)
        one = jax.jit(case.update)
        many = jax.jit(jax.vmap(case.update, in_axes=(0, 0, None)))
        values = np.array([0.5, 2.0])
        together = jax.tree.map(lambda part: np.stack([part] * 2), state)
        alone = [state, state]
        for k in range(jax.tree.leaves(examples)[0].shape[0]):
            example = _at(examples, k)
            together, infos = many(values, together, example)
            found = jax.device_get((together, infos))
            for i, value in enumerate(values):
                alone[i], info = one(value, alone[i], example)
                chex.assert_trees_all_close(
                    _at(found, i), (alone[i], info), rtol=1e-8, atol=1e-8
                )


def _platforms(case: _Case) -> None:
    learner, state, _, first = case.start(jnp.float32)
    key = jax.random.key_data(jax.random.key(0))

    def init(data: jax.Array, example: Any) -> Any:
        return learner.init(jax.random.wrap_key_data(data), example)

    for function, given in ((init, (key, first)), (learner.update, (state, first))):
        leaves, tree = jax.tree.flatten(given)

        def flat(
            *leaves: jax.Array, function: Any = function, tree: Any = tree
        ) -> list[Any]:
            return jax.tree.leaves(function(*jax.tree.unflatten(tree, leaves)))

        found = jax.export.export(jax.jit(flat), platforms=PLATFORMS)(*leaves)
        _hold(found.platforms == PLATFORMS, f"lowered for {found.platforms} only")
        # Single precision stays single where double is on.
        types = {a.dtype.name for a in found.out_avals}
        types = {name for name in types if "float" in name} - {"float32"}
        _hold(not types, f"given float32, some results are {sorted(types)}")


#: Names and functions of the checks of `check_learner`.
CHECKS: dict[str, Callable[[_Case], None]] = {
    "names": _names,
    "rounds": _rounds,
    "jit": _jit,
    "vmap": _vmap,
    "platforms": _platforms,
}


def sentences(space: Space) -> streams.sentences.Stream:
    """Return a small stream of shapes without values, for `assert_no_copies`.

    Args:
      space: Sizes of the feature space. Take a large number of features that no other
        axis has, such as 40,000.
    """
    ints: Any = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.int32)
    num_tokens, num_sentences = 200, 20
    return streams.sentences.Stream(
        feature_ids=ints((num_tokens, len(space.orders))),
        labels=ints((num_tokens,)),
        starts=ints((num_sentences,)),
        lengths=ints((num_sentences,)),
        window=16,
        space=space,
    )


def assert_no_copies(learner: Learner, stream: Stream, *, num_rows: int) -> None:
    """Raise `AssertionError` if a compiled pass copies a large table.

    A copy in each round makes the cost of a round grow with the size of the table
    instead of the size of the example. Nothing is run: the text of the compiled program
    is read, so the stream may hold shapes only.

    Args:
      learner: Learner whose state holds the tables.
      stream: Examples, or shapes (`jax.ShapeDtypeStruct`), such as `sentences`.
      num_rows: First axis of the tables, K + 1 for a model of sentences. No other axis
        may have this size. Every other array of the state with as many numbers or more
        is looked for too.
    """
    checks.whole(num_rows=num_rows)
    example = jax.eval_shape(lambda given: given.example(0), stream)
    state = jax.eval_shape(learner.init, jax.random.key(0), example)
    order = jax.ShapeDtypeStruct((stream.num_examples,), jnp.int32)
    step = jax.jit(lambda *given: loops.run(learner, *given), donate_argnums=0)
    text = step.lower(state, stream, order).compile().as_text() or ""
    _hold(
        re.search(rf"\[{num_rows}[,\]]", text),
        f"no array of the pass has {num_rows} rows",
    )
    tables = {x.shape[0] for x in jax.tree.leaves(state) if x.size >= num_rows}
    sizes = "|".join(str(size) for size in tables | {num_rows})
    pattern = re.compile(rf"= \w+\[({sizes})[,\]][^ ]* copy\(")
    lines = [line.strip() for line in text.splitlines() if pattern.search(line)]
    _hold(
        not lines,
        "each round copies a table; make the values written depend on the values read, "
        f"and keep tables out of conditionals: {'; '.join(lines)[:400]}",
    )


def _at(tree: Any, i: int) -> Any:
    """Slice arrays of the host: on the device each slice would be a program."""
    return jax.tree.map(lambda part: jnp.asarray(part[i]), tree)


def _hold(condition: Any, sentence: str) -> None:
    if not condition:
        raise AssertionError(f"{sentence}.")

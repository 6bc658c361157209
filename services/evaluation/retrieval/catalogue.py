"""Finds the test collections in a folder."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from services.evaluation.retrieval import beir, glasgow, identifiers, multihop, tau2, xquad
from services.evaluation.retrieval.collection import BrokenCollection, Collection

Loader = Callable[[], Collection]


def found(folder: Path) -> dict[str, Loader]:
    """Loaders by name, of all collections below `folder` in a layout that is known, and of the generated one.

    Raises BrokenCollection when there is none but the generated one.
    """
    loaders = dict(_found(folder))
    if not loaders:
        raise BrokenCollection(f"{folder} holds no collection in a layout that is known")
    return loaders | {identifiers.NAME: identifiers.load}


def chosen(loaders: dict[str, Loader], names: Sequence[str]) -> list[Loader]:
    """Those of these names; all of them without names. Raises BrokenCollection for a name that is not there."""
    if unknown := [name for name in names if name not in loaders]:
        raise BrokenCollection(f"no such collection: {', '.join(unknown)}; there are {', '.join(loaders)}")
    return [loaders[name] for name in names or loaders]


def _found(folder: Path) -> Iterator[tuple[str, Loader]]:
    if not folder.is_dir():
        return
    for each in sorted(path for path in folder.iterdir() if path.is_dir()):
        if beir.is_beir(each):
            yield each.name.lower(), partial(beir.load, each)
        elif glasgow.is_glasgow(each):
            yield each.name, partial(glasgow.load, each)
        elif xquad.is_xquad(each):
            for task in xquad.TASKS:
                yield task, partial(xquad.load, each, task)
        elif tau2.is_tau2(each):
            yield tau2.NAME, partial(tau2.load, each)
        else:
            for name in multihop.NAMES:
                if multihop.is_multihop(each, name):
                    yield name, partial(multihop.load, each, name)

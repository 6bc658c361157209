import sys

import numpy as np
import pytest

from loadtests.peers import environments, questions
from loadtests.peers.worker import PeerEnded, worker


async def test_a_peer_answers_with_what_it_took_and_survives_its_own_failures():
    async with worker(sys.executable, "tests.unit.loadtests.echoing_peer") as peer:
        did = await peer.do("add_up", 200_000)
        assert did.value == sum(range(200_000))
        assert did.took.passed > 0
        assert did.took.worked > 0
        with pytest.raises(PeerEnded, match="ValueError: no such thing"):
            await peer.do("fail")
        assert (await peer.do("add_up", 3)).value == 3
        with pytest.raises(PeerEnded, match="has ended"):
            await peer.do("leave")


def test_near_questions_are_near_and_others_are_not():
    for number in (0, 7, 9_999):
        one, near = questions.vector(questions.asked(number)), questions.vector(questions.near(number))
        other = questions.vector(questions.asked((number + 1) % questions.COUNT))
        assert one @ near > 0.95
        assert abs(one @ other) < 0.3
        assert np.linalg.norm(near) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", sorted(environments.LARGE | environments.SMALL))
def test_a_lock_file_names_its_peers_and_a_hash_for_every_package(name):
    packages = environments.packages(name)
    assert all("==" in package for package in packages)
    assert packages

"""How far the critic's targets look, by what it explains of them."""

import math

import pytest

from longstride.learning.batch.target_reach import TargetReach


def test_lambda_comes_closer_to_one_while_nearly_all_is_explained_and_goes_back_while_it_is_not():
    reach = TargetReach()
    assert reach.lambda_of(0.95) == 0.95, "its very bits"
    for explained in [0.995] * 4 + [0.98]:
        reach.learn(explained)
    assert 1.0 - reach.lambda_of(0.95) == pytest.approx(0.05 / 1.1**3)
    assert 1.0 - reach.lambda_of(0.5) == pytest.approx(0.5 / 1.1**3)


@pytest.mark.parametrize(("explained", "distance"), [(1.0, 0.01), (0.5, 0.05), (-3.0, 0.05), (math.nan, 0.05)])
def test_its_distance_to_one_stays_between_a_fifth_of_the_chosen_one_and_all_of_it(explained, distance):
    reach = TargetReach()
    for each in [0.999] * 8 + [explained] * 30:
        reach.learn(each)
    assert 1.0 - reach.lambda_of(0.95) == pytest.approx(distance)

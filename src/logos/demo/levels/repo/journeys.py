# pyright: basic, reportMissingImports=false
"""What customers do, from the order to the total."""

import unittest

from orders import Order


class Journeys(unittest.TestCase):
    def test_three_pens_and_a_pad(self) -> None:
        order = Order()
        order.add("pen", 150, pieces=3)
        order.add("pad", 420)
        self.assertEqual(order.total(), 870)

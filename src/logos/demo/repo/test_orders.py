# pyright: basic, reportMissingImports=false

import unittest

from orders import Order


class Totals(unittest.TestCase):
    def test_an_empty_order_costs_nothing(self) -> None:
        self.assertEqual(Order().total(), 0)

    def test_articles_add_up(self) -> None:
        order = Order()
        order.add("pen", 150, pieces=3)
        order.add("pad", 420)
        self.assertEqual(order.total(), 870)

    def test_no_piece_is_no_order(self) -> None:
        with self.assertRaises(ValueError):
            Order().add("pen", 150, pieces=0)


if __name__ == "__main__":
    unittest.main()

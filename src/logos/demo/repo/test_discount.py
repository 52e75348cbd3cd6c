# pyright: basic, reportMissingImports=false

import unittest

from orders import Order


def total(*lines: tuple[str, int, int]) -> int:
    order = Order()
    for article, cents, pieces in lines:
        order.add(article, cents, pieces)
    return order.total()


class BulkDiscount(unittest.TestCase):
    def test_nine_pieces_cost_the_full_price(self) -> None:
        self.assertEqual(total(("pen", 150, 9)), 1350)

    def test_ten_pieces_cost_ten_percent_less(self) -> None:
        self.assertEqual(total(("pen", 150, 10)), 1350)

    def test_twelve_pieces_cost_ten_percent_less(self) -> None:
        self.assertEqual(total(("pen", 150, 12)), 1620)

    def test_pieces_of_one_article_count_together(self) -> None:
        self.assertEqual(total(("pen", 150, 7), ("pad", 420, 1), ("pen", 150, 5)), 2040)

    def test_pieces_of_different_articles_do_not(self) -> None:
        self.assertEqual(total(("pen", 150, 6), ("pad", 420, 6)), 3420)

    def test_half_a_cent_is_the_customers(self) -> None:
        self.assertEqual(total(("clip", 5, 11)), 49)


if __name__ == "__main__":
    unittest.main()

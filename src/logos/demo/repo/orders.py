"""What a customer pays. Prices are whole cents."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Item:
    article: str
    cents: int
    pieces: int

    def total(self) -> int:
        return self.cents * self.pieces


@dataclass
class Order:
    items: list[Item] = field(default_factory=list[Item])

    def add(self, article: str, cents: int, pieces: int = 1) -> None:
        if pieces < 1:
            raise ValueError(f"{article}: at least one piece, not {pieces}")
        self.items.append(Item(article, cents, pieces))

    def total(self) -> int:
        return sum(item.total() for item in self.items)

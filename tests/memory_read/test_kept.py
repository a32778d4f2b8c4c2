"""What is kept from one question to the next."""

from intentmem.memory.read.kept import Kept


def test_the_value_that_was_not_used_for_longest_gives_way() -> None:
    kept = Kept[str, int](2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (1, None, 3)


def test_a_later_value_of_a_key_takes_the_place_of_the_earlier_one() -> None:
    kept = Kept[str, int](2)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.put("a", 3)
    kept.put("c", 4)
    assert (kept.get("a"), kept.get("b")) == (3, None)

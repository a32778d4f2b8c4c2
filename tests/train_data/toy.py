"""A toy corpus of annotated dialogues."""

from intentmem.memory.types import NewTurn
from intentmem.train_data import Card, Corpus, EventGold, Trajectory, TurnGold, ValueSpan

SERVICES = ("Cafes_1", "Rides_2", "Films_1")


def dialogue(number: int, service: str, exchanges: int = 5) -> Trajectory:
    turns, gold = [], {}
    for index in range(2 * exchanges):
        id = f"train/{number}:{index}"
        name = f"Thing{number}"
        text = f"{name} please, number {index}" if index % 2 == 0 else f"It is {name} and costs {index} crowns"
        turns.append(NewTurn("user" if index % 2 == 0 else "assistant", text, session=f"train/{number}", source_id=id))
        last = index >= 2 * exchanges - 2
        event = EventGold("thanks", "thanks", "THANK_YOU", service) if last else EventGold("e", "e", "INFORM", service)
        start = text.index(name)
        spans = [ValueSpan(service, "thing_name", name, start, start + len(name))]
        if index % 2:
            cost = text.index(f"{index} crowns")
            spans.append(ValueSpan(service, "price", f"{index} crowns", cost, len(text)))
        gold[id] = TurnGold(f"{service}: find", service, None, (event,), (), tuple(spans))
    return Trajectory(f"train/{number}", tuple(turns), "train", gold)


def toy_corpus(n: int = 60, use: str = "train") -> Corpus:
    card = Card("sgd", "Test", "CC0", use, "nowhere")  # type: ignore[arg-type]
    return Corpus(card, tuple(dialogue(i, SERVICES[i % 3]) for i in range(n)), hash="h")

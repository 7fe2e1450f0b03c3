"""Recall cards: their numbers come from the engine, and FSRS computes when each is due."""

from manyheads.learn.cards.deck import Card, cards_of, deck, deck_json, topics

__all__ = ["Card", "cards_of", "deck", "deck_json", "topics"]

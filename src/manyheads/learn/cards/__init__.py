"""Recall cards: their numbers come from the engine, and FSRS says when each is due again."""

from manyheads.learn.cards.deck import Card, cards_of, deck, deck_json, topics

__all__ = ["Card", "cards_of", "deck", "deck_json", "topics"]

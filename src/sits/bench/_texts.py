"""Prompts of a known length that nobody has asked before. Pure.

Each word is one token of the benchmarks' model, with the space before it or without, so that a
text has as many tokens as words; a test holds them to the model's tokenizer.
"""

import random

_LIST = """
about above after again along among animal answer around before below best between black blood
blue board boat body book both brother brown build business call camp cause center change child
church city class clear close cold color common company control country course cover create dark
daughter death deep develop different direct door down early earth east energy enough even every
example experience face fact family
"""
WORDS = tuple(_LIST.split())


def draw_words(dice: random.Random, count: int) -> str:
    """Return so many words, drawn."""
    return " ".join(dice.choices(WORDS, k=count))

"""The four ids that stand for no word; `data/tokens.py` gives them their names."""

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3

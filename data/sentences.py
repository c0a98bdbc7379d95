"""A paragraph of text -> its sentences.

The segmenter of Wikimedia's `sentencex`, rules for some 300 languages, does the work;
it is fast (tens of megabytes per second) and cuts seldom too little. A few rules here
join what it cuts too often.
"""

import re

import sentencex

# A period after these ends no sentence when a number follows,
_BEFORE_NUMBER = re.compile(r"\b(?:vol|no|fig|eq|ch|sec|p|pp|approx|ca|c)s?\.$", re.I)
# and after these when a name follows.
_BEFORE_NAME = re.compile(
    r"\b(?:Ft|Mt|Wm|Geo|Chas|Thos|Jas|Robt|Benj|Mr|Mrs|Ms|Mme|Mlle|Dr|Prof|Rev|Hon|Capt"
    r"|Lt|Maj|Sgt|Sen|Rep|Gov|vs|cf|viz)\.$"
)


def split(paragraph, language="en"):
    """Cuts a paragraph into sentences.

    Args:
      paragraph: str; white space, line ends too, counts as one space.
      language: code such as "en", "de", "zh".

    Returns:
      List of str without white space at their ends.
    """
    text = " ".join(paragraph.split())
    is_cased = text != text.lower()
    sentences = []
    space = ""  # between the piece before and this one
    for piece in sentencex.segment(language, text):
        stripped = piece.strip()
        if not stripped:
            continue
        if piece[0] == " ":
            space = " "
        if sentences and _belongs_to(sentences[-1], stripped, is_cased):
            sentences[-1] += space + stripped
        else:
            sentences.append(stripped)
        space = " " if piece[-1] == " " else ""
    return sentences


def _belongs_to(sentence, piece, is_cased):
    """Whether a piece goes on with the sentence before it.

    Args:
      sentence, piece: str.
      is_cased: whether the text they are from has capitals.
    """
    if not any(map(str.isalnum, piece)) or piece[0] in ",;:，；：、":
        return True
    if not sentence.endswith("."):
        return False
    if piece[:1].isdigit():
        return bool(_BEFORE_NUMBER.search(sentence))
    # Georgian letters are small, and their own title case.
    is_small = is_cased and piece[0] != piece[0].title()
    return is_small or bool(_BEFORE_NAME.search(sentence))

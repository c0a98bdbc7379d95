"""A row of a signature's outputs -> a dict for JSON that a person reads."""

# Digits of vectors, as in the files of extract_features.py.
_DIGITS = 6


def _classified(row, description):
    labels = description["labels"]
    if description["kind"] == "regression":
        return {"value": float(row["logits"][0])}
    probabilities = dict(zip(labels, row["probabilities"].tolist(), strict=True))
    if description["kind"] == "multi_label":
        given = [label for label, share in probabilities.items() if share >= 0.5]
        return {"labels": given, "probabilities": probabilities}
    return {"label": row["label"].decode(), "probabilities": probabilities}


def _answered(row, description):
    found = int(row["start"]) >= 0
    return {
        "answer": row["answer"].decode(),
        "start": int(row["start"]) if found else None,
        "end": int(row["end"]) if found else None,
        "score": float(row["score"]),
        "null_score": float(row["null_score"]),
        "probability": float(row["probability"]),
    }


def n_best(row, size):
    """The best answers to a question, those that are not empty."""
    columns = {
        name: row[f"{name}s"].tolist()[:size] for name in ("start", "end", "score")
    }
    texts = [text.decode() for text in row["answers"][:size]]
    columns = {"answer": texts, **columns, "probability": row["probabilities"].tolist()}
    found = [
        dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=False)
    ]
    return [answer for answer in found if answer["start"] >= 0]


def _tagged(row, description):
    words = zip(row["words"], row["starts"], row["ends"], row["tags"], strict=True)
    spans = zip(
        row["span_texts"],
        row["span_starts"],
        row["span_ends"],
        row["span_types"],
        strict=True,
    )
    return {
        "words": [_placed("word", "tag", word) for word in words if word[1] >= 0],
        "spans": [_placed("text", "type", span) for span in spans if span[1] >= 0],
    }


def _placed(text_name, kind_name, values):
    text, start, end, kind = values
    return {
        text_name: text.decode(),
        "start": int(start),
        "end": int(end),
        kind_name: kind.decode(),
    }


def _chosen(row, description):
    return {
        "choice": int(row["choice"]),
        "probabilities": row["probabilities"].tolist(),
    }


def _filled(row, description):
    columns = zip(row["starts"], row["tokens"], row["probabilities"], strict=True)
    return {
        "masks": [
            {
                "start": int(start),
                "tokens": [
                    {"token": token.decode(), "probability": float(share)}
                    for token, share in zip(tokens, shares, strict=True)
                ],
            }
            for start, tokens, shares in columns
            if start >= 0
        ]
    }


def _embedded(row, description):
    names = ("cls", "mean", "pooled_output")
    return {
        name: [round(value, _DIGITS) for value in row[name].tolist()]
        for name in names
        if name in row
    }


# {task: (dict of arrays, what the export says of itself) -> dict}.
OF_TASK = {
    "classifier": _classified,
    "squad": _answered,
    "ner": _tagged,
    "multiple_choice": _chosen,
    "masked_lm": _filled,
    "encoder": _embedded,
}

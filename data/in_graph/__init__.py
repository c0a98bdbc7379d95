"""Text to arrays and back inside a TensorFlow graph, for models that take raw strings.

tokenization  what `data.tokenization` does, of normalization and wordpiece; tables are
              the lookups that both are made of
repeats       the row of each value, where rows are many and one is long
windows       long contexts as rows, and answers, the n best of them
tags          texts to words, and tags to entities
"""

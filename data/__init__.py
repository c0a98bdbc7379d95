"""Text in, arrays out. What stands where:

text        tokenization, normalization, unicode14, encoding
in_graph    the same, and what answers and tags need, inside a SavedModel
corpus      corpus (a command), sources, wikitext, sentences; vocab (a command)
commands    errors, inputs, outputs, progress, utf8; quiet imports TensorFlow silently
records     create_pretraining_data and inspect (commands); documents, instances,
            masking, packing and making turn text into rows, parallel and spool keep
            memory bounded, records knows every field, readable shows them;
            beam_pipeline makes the same on a cluster
pre-training  pretraining streams the records, record_checks looks for damage; remasking
            and next_token change them, masked_samples shows what a model fills in
fine-tuning   batching pads rows held in memory (ragged) to their length
classes     classification, glue, tables; answers writes predictions
SQuAD       squad reads, squad_windows cuts, squad_cache keeps, squad_decoding answers,
            squad_score scores (a command)
tags        conll, ner, tagging, entity_score; word_vectors for the feature-based way
choices     multiple_choice
vectors     extraction, vector_files
"""

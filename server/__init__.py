"""SavedModels over HTTP, in the REST format of TensorFlow Serving.

rest            JSON -> arrays -> JSON
saved_models    SavedModels, their signatures and versions
micro_batches   rows of many requests -> one call of the model
application     the addresses and the limits; measures is what Prometheus is told
lifetime        start, new versions, end
errors          what a client is told

Nothing of ours is imported here and nothing is known of BERT, but that rows may be
padded where a signature has an `input_mask`.
"""

"""SavedModels over HTTP, in the REST format of TensorFlow Serving.

rest            JSON -> a request's arrays, with values and ragged rows; answers back
saved_models    SavedModels, their signatures and versions; axes: what can be padded
micro_batches   who waits for the model, and goes together; calls is one call of it
application     the addresses and the limits; measures is what Prometheus is told
lifetime        start, new versions, end
errors          what a client is told

Nothing of ours is imported here and nothing is known of BERT, but that rows may be
padded where a signature has an `input_mask`, and that a SavedModel may have a variable
`max_tokens`, the most tokens of a call.
"""

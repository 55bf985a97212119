"""The faults that are planted into the server of these tests, one at a time, and the row of the check that must name each.

The list was written before the check. A fault stands in `engine.py` or `server.py` behind its name.
"""

FAULTS = {
    # ------------------------------------------------------------------------------------------------- caches of prefixes
    "stale-cache": "a cached block is a view of a buffer that the next prompt overwrites",
    "cache-by-length": "the cache of prefixes is keyed by the number of tokens",
    "cache-weak-hash": "the key of a block is the sum of its ids, so their order is lost",
    "cache-no-parent": "the key of a block is its own tokens, without those before it",
    # ------------------------------------------------------------------------------------------------- batches
    "padding-attended": "padding in a batch is attended to",
    "padding-side": "a batch is padded on the left and its positions are counted from the right-padded row",
    "row-swap": "two answers of a batch are exchanged",
    "shared-norm": "a norm takes its statistics over all rows of the batch",
    "bf16-large-batch": "batches of 4 and more are computed in bfloat16",
    "shared-buffer": "concurrent requests write their keys and values into one buffer",
    # ------------------------------------------------------------------------------------------------- prompts in chunks
    "chunk-offset": "positions start again at each chunk of a prompt",
    "chunk-border": "the first token of each further chunk leaves no keys and values",
    "truncated-prompt": "of prompts longer than 100 tokens, only the last 100 are read",
    "future": "a token of a chunk attends to the later tokens of its chunk",
    # ------------------------------------------------------------------------------------------------- state and chance
    "order-state": "the mean of the last request's activations is added to the next one's first token",
    "dropout": "dropout is on",
    "greedy-samples": "temperature 0 draws at temperature 1",
    # ------------------------------------------------------------------------------------------------- reported numbers
    "wrong-token": "the logprob of a token is that of the next most likely one",
    "echo-shift": "the logprobs of the prompt's tokens stand one position too early",
    "after-temperature": "logprobs are taken after division by the temperature",
    "logits": "the logits are reported as logprobs",
    # ------------------------------------------------------------------------------------------------- texts and ends
    "space-dropped": "the text loses the space before some words",
    "stop-early": "the text ends one character before the stop string",
    "stop-returned": "the stop string is returned",
    "stop-in-prompt": "a stop string ends the answer where only the prompt has it",
    "limit-off-by-one": "one token more than max_tokens",
    "finish-reason": "finish_reason is always stop",
    "usage": "usage counts the prompt as completion tokens",
}

ROWS = {
    "stale-cache": "prefix-cache", "cache-by-length": "prefix-cache", "cache-weak-hash": "prefix-cache",
    "cache-no-parent": "prefix-cache", "padding-attended": "batch", "padding-side": "batch", "row-swap": "batch",
    "shared-norm": "neighbours", "bf16-large-batch": "batch", "shared-buffer": "concurrency", "chunk-offset": "chunks",
    "chunk-border": "chunks", "truncated-prompt": "chunks", "future": "causal", "order-state": "run-to-run",
    "dropout": "run-to-run",
    "greedy-samples": "greedy", "wrong-token": "probabilities", "echo-shift": "echo", "after-temperature": "temperature",
    "logits": "probabilities", "space-dropped": "text", "stop-early": "stop", "stop-returned": "stop", "stop-in-prompt": "stop",
    "limit-off-by-one": "limit", "finish-reason": "finish-reason", "usage": "limit",
}  # fmt: skip

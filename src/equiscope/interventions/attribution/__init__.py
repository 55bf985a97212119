"""Attribution: which layers, parts and tokens decide an answer, by cheap scores, and by removing them."""

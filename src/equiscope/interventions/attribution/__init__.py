"""Attribution: which layers, parts and tokens decide an answer, by cheap pictures, and by removing them."""

"""One file for each page: the record that it writes."""

"""One model on one process and on several: what each process computes, module by module, is compared with the whole."""
